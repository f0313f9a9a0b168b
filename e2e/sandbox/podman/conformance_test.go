//go:build e2e && linux

// Package podman_test runs the conformance suite on sandboxes of Podman's, and
// tests what differs: of a service that it starts, with files of its own, over the
// socket that has Docker's interface.
package podman_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(host string) (*docker.Engine, error) {
	return docker.New(docker.Options{Name: "podman", Host: host})
}

// TestPodman is one test, so that there is one Podman.
func TestPodman(t *testing.T) {
	host := enginetest.Podman(t)
	t.Run("conformance", func(t *testing.T) {
		pl := sandboxtest.Place{
			Name: "podman fds", OwnAccounts: true, Config: sandbox.Config{Driver: sandbox.DriverFDs},
			Engine: func() (engine.Engine, error) { return open(host) },
		}
		pl.Run(t)
	})
	t.Run("frames", func(t *testing.T) { testFrames(t, host) })
	t.Run("limits", func(t *testing.T) { testLimits(t, host) })
	t.Run("workspaces", func(t *testing.T) { testWorkspaces(t, host) })
}

// begin opens a sandbox.
func begin(t *testing.T, host string, cfg sandbox.Config) (*sandbox.Executor, *docker.Engine) {
	t.Helper()
	engine, err := open(host)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Engine, cfg.Image = engine, images.Busybox
	x, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(x.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return x, engine
}

func run(t *testing.T, x corral.Executor, text string) runner.Result {
	t.Helper()
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: text}, runner.Options{Stdin: strings.NewReader("put in")})
	if err != nil {
		t.Fatal(err, corral.Hint(err))
	}
	return r
}

// With the driver frames commands run, and end with the gateway: Podman closes
// the input of a container when the client that is attached leaves. It is not
// known then how the commands ended, and the next command gets a new container.
func testFrames(t *testing.T, host string) {
	cfg := sandbox.Config{Driver: sandbox.DriverFrames, StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t)}
	x, _ := begin(t, host, cfg)
	if r := run(t, x, "cat; echo to stderr >&2; touch kept /tmp/lost; exit 3"); r.Exit.Code != 3 || r.Stdout.String() != "put in" || r.Stderr.String() != "to stderr\n" {
		t.Errorf("%+v", r)
	}
	p, err := x.Start(t.Context(), corral.Command{ID: "sleeper", Shell: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	y, _ := begin(t, host, cfg)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // it ends a moment later
		st, err := y.Status(t.Context())
		if err != nil || time.Now().After(end) {
			t.Fatalf("the container does not end: %+v, %v", st, err)
		}
		if !st.Container.Running {
			break
		}
	}
	if p, err = y.Attach(t.Context(), p.Info().ID); err == nil {
		_, err = p.Wait(t.Context())
	}
	if !errors.Is(err, corral.ErrLost) {
		t.Errorf("the end of what ran when the gateway went: %v", err)
	}
	if r := run(t, y, "test -e kept && test ! -e /tmp/lost"); !r.Exit.Success() {
		t.Errorf("%v: %s", r.Exit, r.Stderr.String())
	}
	if err := y.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// What Podman was asked for holds, but for the number of files in memory.
func testLimits(t *testing.T, host string) {
	x, engine := begin(t, host, sandbox.Config{
		StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t), Ephemeral: true,
		Resources: sandbox.Resources{Memory: 64 << 20, Pids: 50, CPUs: 0.5, OpenFiles: 300, FileSize: 1 << 20},
	})
	r := run(t, x, `ulimit -n; ulimit -c; head -c 3000000 /dev/zero >/tmp/big 2>/dev/null; wc -c </tmp/big
		grep -c Seccomp:.2 /proc/self/status; grep NoNewPrivs /proc/self/status; grep CapBnd /proc/self/status
		ls /sys/class/net; touch /x 2>/dev/null || echo read-only; [ $(id -u) -ge 1879048192 ] && echo a user of its own`)
	if want := "300\n0\n1048576\n1\nNoNewPrivs:\t1\nCapBnd:\t0000000000000000\nlo\nread-only\na user of its own\n"; r.Stdout.String() != want {
		t.Errorf("%q, want %q", r.Stdout.String(), want)
	}
	if r := run(t, x, "head -c 200m /dev/zero | tail"); r.Exit.Reason != corral.ReasonOOM {
		t.Errorf("%+v", r.Exit)
	}
	st, err := x.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Stats(t.Context(), st.Container.ID)
	if err != nil || s.Memory <= 0 || s.Memory > 64<<20 || s.MemoryLimit != 64<<20 || s.CPU <= 0 || s.CPULimit != 0.5 || s.Pids < 1 || s.PidsLimit != 50 || s.OOMKills < 1 || s.At.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
}

// A private workspace has its size on Podman too, on a disk and in memory; that on
// a disk is there again in the next container.
func testWorkspaces(t *testing.T, host string) {
	for _, medium := range []sandbox.Medium{sandbox.MediumDisk, sandbox.MediumMemory} {
		t.Run(string(medium), func(t *testing.T) {
			x, _ := begin(t, host, sandbox.Config{
				StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t),
				Workspace: sandbox.Workspace{Access: sandbox.AccessNone, Size: 16 << 20, Medium: medium},
			})
			r := run(t, x, "echo kept >note; cat /dev/zero >full; wc -c <full | cut -c1-2; rm full")
			if n := strings.TrimSpace(r.Stdout.String()); n < "10" || n > "16" || !strings.Contains(r.Stderr.String(), "No space left on device") {
				t.Errorf("%q, %q", n, r.Stderr.String())
			}
			if _, _, err := x.Recreate(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[sandbox.Medium]string{sandbox.MediumDisk: "kept\n"}[medium]
			if r := run(t, x, "cat note 2>/dev/null || :"); r.Stdout.String() != want {
				t.Errorf("in the next container: %q, want %q", r.Stdout.String(), want)
			}
			if err := x.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
