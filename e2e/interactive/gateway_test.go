//go:build e2e

package interactive_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// A gateway runs as a process of its own. With it is what a user's shell has.
type gateway struct {
	*place
	program string
	env     []string
}

// everyGateway runs a test with a gateway for this machine and with one that has
// a sandbox.
func everyGateway(t *testing.T, test func(g *gateway)) {
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		test(startGateway(newPlace(t), "--workspace", "."))
	})
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		makeImage(t)
		test(startGateway(newPlace(t), "--workspace", ".", "--sandbox", "all", "--image", image, "--workspace-access", "rw"))
	})
}

func startGateway(pl *place, flags ...string) *gateway {
	pl.Helper()
	g := &gateway{place: pl}
	self, err := os.Executable()
	if err != nil {
		pl.Fatal(err)
	}
	home := filepath.Join(filepath.Dir(pl.work), "home")
	g.program = filepath.Join(home, "corral")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Symlink(self, g.program)); err != nil {
		pl.Fatal(err)
	}
	g.env = []string{
		roleVar + "=corral", "PATH=" + home + ":/usr/bin:/bin", "HOME=" + home, "SHELL=/bin/sh", "LANG=C.UTF-8",
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "CORRAL_STATE_DIR=" + pl.state, "CORRAL_WARDEN=" + wardenbintest.Build(pl.T), "TMPDIR=" + os.TempDir(),
		"DOCKER_HOST=" + os.Getenv("DOCKER_HOST"), "GORACE=atexit_sleep_ms=0",
	}
	var log bytes.Buffer
	cmd := g.command(append([]string{"gateway"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	// Where it was started is of no interest to what runs on other terminals.
	cmd.Env = append(g.env, "TERM=dumb", "COLUMNS=40", "LINES=5")
	if err := cmd.Start(); err != nil {
		pl.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	pl.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone, which is seen now
		if err := <-exited; err != nil {
			pl.Errorf("the gateway ended: %v\n%s", err, log.String())
		}
	})
	for end := time.Now().Add(patience); g.command("gateway", "status").Run() != nil; time.Sleep(glance) {
		if time.Now().After(end) {
			pl.Fatal("the gateway is not ready")
		}
	}
	return g
}

func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.program, args...)
	cmd.Dir, cmd.Env = g.work, g.env
	return cmd
}

// corral runs the program, which has to succeed.
func (g *gateway) corral(args ...string) string {
	g.Helper()
	out, err := g.command(args...).CombinedOutput()
	if err != nil {
		g.Fatalf("corral %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// A desk is a user's terminal with a shell.
type desk struct {
	*gateway
	screen *screen
}

// sit opens a terminal.
func (g *gateway) sit(size corral.Size) *desk {
	g.Helper()
	env := append([]string{"PS1=desk> ", "HISTFILE="}, g.env...)
	d := &desk{g, newScreen(g.T, size, env, "bash", "--norc", "-i")}
	d.until(shows(`^desk>$`))
	return d
}

// types types keys by tmux's names, or text.
func (d *desk) types(names ...string) {
	d.Helper()
	d.screen.tmux(append([]string{"send-keys"}, names...)...)
}

// until waits until all of that is on the screen.
func (d *desk) until(sights ...sight) {
	d.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(glance) {
		picture := d.screen.picture()
		miss := missing(picture, sights)
		if len(miss) == 0 {
			return
		}
		if time.Now().After(end) {
			d.Fatalf("not on the screen: %s\n%s", strings.Join(miss, ", "), framed(picture))
		}
	}
}

func (d *desk) show(title string) {
	d.Helper()
	d.Logf("%s:\n%s", title, framed(d.screen.picture()))
}
