//go:build e2e

package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/testnet"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// A site is where a gateway lives, over all its lives.
type site struct {
	t       *testing.T
	dir     string // everything is in it
	state   string
	work    string // the workspace, with testprog and the directory runs
	program string // corral
	env     []string
	flags   []string
	host    *testnet.Host // of a network; nil: this machine

	*daemon // the gateway
}

// A daemon is a program, over all its lives.
type daemon struct {
	t       *testing.T
	command func() *exec.Cmd

	mu   sync.Mutex
	life *life
}

// A life is one process of a daemon.
type life struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	over   chan struct{} // closed when it has ended
	err    error         // how
}

func newSite(t *testing.T, flags ...string) *site {
	t.Helper()
	dir := testdir.New(t)
	s := &site{t: t, dir: dir, state: filepath.Join(dir, "state"), work: filepath.Join(dir, "work"), program: filepath.Join(dir, "corral")}
	for _, d := range []string{s.work, filepath.Join(s.work, "runs")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, 1000, 1000); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil { // for root as well as for the sandbox's user
			t.Fatal(err)
		}
	}
	exectest.BuildTestProg(t, s.work)
	program, err := corralBuilt()
	if err == nil {
		err = os.Link(program, s.program)
	}
	if err != nil {
		t.Fatal(err)
	}
	enginetest.New(t)
	s.env = append(os.Environ(), "CORRAL_WARDEN="+wardenbintest.Build(t), "SHELL=/bin/sh", "HOME="+dir)
	settings := filepath.Join(dir, "corral.json5")
	if err := os.WriteFile(settings, []byte(`{tools: {exec: {security: "full", ask: "off"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flags = append([]string{"gateway", "--config", settings, "--state-dir", s.state, "--sandbox", "all", "--image", images.Busybox,
		"--workspace", s.work, "--allow-elevated", "--log-format", "json"}, flags...)
	s.daemon = newDaemon(t, func() *exec.Cmd { return s.on(s.host, s.flags...) })
	return s
}

// corralBuilt is corral with the race detector, built once for all tests.
var corralBuilt = sync.OnceValues(func() (string, error) {
	program := filepath.Join(builtDir, "corral")
	build := exec.Command("go", "build", "-race", "-o", program, "github.com/corral-exec/corral/cmd/corral")
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=-trimpath", "GOTMPDIR="+builtDir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building corral: %w\n%s", err, out)
	}
	return program, nil
})

// on is the program as it is run on a host.
func (s *site) on(h *testnet.Host, args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	if h != nil {
		cmd = h.Command(s.program, args...)
	}
	cmd.Env, cmd.Dir = s.env, s.work
	return cmd
}

func newDaemon(t *testing.T, command func() *exec.Cmd) *daemon {
	d := &daemon{t: t, command: command}
	t.Cleanup(d.kill)
	return d
}

// begin starts the program, and returns at once.
func (d *daemon) begin() *life {
	l := &life{cmd: d.command(), over: make(chan struct{})}
	l.cmd.Stderr = &l.stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the test
	if err := l.cmd.Start(); err != nil {
		d.t.Error(err)
		close(l.over)
		return l
	}
	go func() {
		l.err = l.cmd.Wait()
		close(l.over)
	}()
	d.mu.Lock()
	d.life = l
	d.mu.Unlock()
	return l
}

// await waits until the gateway is ready.
func (s *site) await(c *client.Client) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := c.Ready(ctx)
		if err == nil {
			return
		}
		s.mu.Lock()
		l := s.life
		s.mu.Unlock()
		select {
		case <-l.over:
			s.t.Fatalf("the gateway ended by itself: %v\n%s", l.err, l.stderr.String())
		case <-ctx.Done():
			s.t.Fatalf("the gateway is not ready: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill kills the program, if it lives, and looks at what it said.
func (d *daemon) kill() {
	d.mu.Lock()
	l := d.life
	d.life = nil
	d.mu.Unlock()
	if l == nil || l.cmd.Process == nil {
		return
	}
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Error(err)
	}
	<-l.over
	if text := l.stderr.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") || l.err == nil || !killed(l.err) {
		d.t.Errorf("the program ended with %v and said:\n%s", l.err, text)
	}
}

func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop has the program end in good order.
func (d *daemon) stop() {
	d.t.Helper()
	d.mu.Lock()
	l := d.life
	d.life = nil
	d.mu.Unlock()
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-l.over:
	case <-time.After(time.Minute):
		_ = l.cmd.Process.Kill()
		d.t.Fatalf("SIGTERM does not end the program:\n%s", l.stderr.String())
	}
	if l.err != nil || strings.Contains(l.stderr.String(), "DATA RACE") {
		d.t.Errorf("the program ended with %v and said:\n%s", l.err, l.stderr.String())
	}
}

// client connects to the gateway, for an agent.
func (s *site) client(agent string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{Socket: filepath.Join(s.state, "gateway.sock"), Agent: agent, Retry: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// corral runs another command of the program.
func (s *site) corral(args ...string) string {
	s.t.Helper()
	cmd := s.on(nil, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// ran is how often a session's command was run.
func (s *site) ran(id string) int {
	b, err := os.ReadFile(filepath.Join(s.work, "runs", id))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Error(err)
	}
	return bytes.Count(b, []byte{'\n'})
}
