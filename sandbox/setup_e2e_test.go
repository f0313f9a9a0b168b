//go:build e2e

package sandbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
)

// lives are what is noted of the containers of a sandbox.
func (b *bench) lives(name string) []sandbox.Life {
	b.t.Helper()
	lives, err := sandbox.Lives(b.cfg.StateDir, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return lives
}

func (b *bench) setupLog(name, id string) string {
	b.t.Helper()
	log, err := sandbox.SetupLog(b.cfg.StateDir, name, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(log)
}

// The setup command runs once in every new container, before everything else.
func TestSetupCommand(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			b.cfg.Isolation.User = "1234:1235"
			b.cfg.SetupCommand = "echo once >>log; id -u; echo to stderr >&2; pwd; cp log /tmp/mine"
			e := b.open(nil)
			ended(t, begin(t, e, "", `test "$(cat log)" = once && test "$(cat /tmp/mine)" = once`), 0)
			ended(t, begin(t, e, "", `test "$(cat log)" = once`), 0)
			lives := b.lives("default")
			if len(lives) != 1 {
				t.Fatalf("%+v", lives)
			}
			s := lives[0].Setup
			if s == nil || s.Failed || s.Exit != "exit code 0" || s.Ended == nil || lives[0].Ended != nil {
				t.Errorf("%+v", lives[0])
			}
			if got := b.setupLog("default", lives[0].ID); got != "1234\nto stderr\n/workspace\n" {
				t.Errorf("the log is %q", got)
			}
			// A process that it leaves behind stays, and disturbs no command.
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.SetupCommand = "sleep 1000 & echo begun" })); err != nil {
				t.Fatal(err)
			}
			ended(t, begin(t, e, "", "test ! -e /tmp/mine && grep -q 1000 /proc/[0-9]*/cmdline"), 0)
			b.await(1)
			lives = b.lives("default")
			if _, _, err := e.Recreate(t.Context()); err != nil {
				t.Error(err)
			}
			b.await(1)
			if len(lives) != 2 || lives[0].Ended == nil || b.setupLog("default", lives[0].ID) == "" || b.setupLog("default", lives[1].ID) != "begun\n" {
				t.Errorf("%+v", lives)
			}
		})
	}
}

// If it fails, nothing runs, and it is said why. What is there already stays.
func TestSetupCommandFails(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			e := b.open(func(c *sandbox.Config) { c.SetupCommand = "echo first; echo no such thing >&2; exit 7" })
			_, err := e.Start(t.Context(), corral.Command{Shell: "echo ran >file"})
			if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrLost) ||
				!strings.Contains(err.Error(), "exit code 7: first | no such thing") || !strings.Contains(corral.Hint(err), "corral sandbox logs default") {
				t.Errorf("%v; %s", err, corral.Hint(err))
			}
			if left := b.containers(); len(left) > 0 || len(b.boxes()) > 0 {
				t.Errorf("left %v, %v", left, b.boxes())
			}
			lives := b.lives("default")
			if len(lives) != 1 || lives[0].Setup == nil || !lives[0].Setup.Failed || lives[0].Setup.Exit != "exit code 7" || !strings.Contains(lives[0].Error, "exit code 7") {
				t.Errorf("%+v", lives)
			} else if got := b.setupLog("default", lives[0].ID); got != "first\nno such thing\n" {
				t.Errorf("the log is %q", got)
			}
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.SetupCommand = "true" })); err != nil {
				t.Fatal(err)
			}
			ended(t, begin(t, e, "", "test ! -e file"), 0)
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.SetupCommand = "kill -9 $$" })); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Start(t.Context(), corral.Command{Shell: "true"}); !errors.Is(err, corral.ErrUnavailable) {
				t.Errorf("killed: %v", err)
			}
			b.await(1)
		})
	}
}

// If the gateway is killed during setup, the container is not used. The next one begins
// anew.
func TestKilledInSetup(t *testing.T) {
	b := newBench(t)
	setup := "echo begun >>log; until test -e /workspace/go; do sleep 0.1; done"
	b.perform(script{Name: "default", Pids: []int64{100}, Setup: setup}, 3*time.Second)
	if len(b.boxes()) != 1 {
		t.Fatalf("boxes %v: this tests nothing", b.boxes())
	}
	if lives := b.lives("default"); len(lives) != 1 || lives[0].Setup == nil || lives[0].Setup.Ended != nil {
		t.Errorf("%+v", lives)
	}
	e := b.open(func(c *sandbox.Config) { c.Resources.Pids, c.SetupCommand = 100, "echo begun >>log" })
	ended(t, begin(t, e, "", `test "$(grep -c begun log)" = 2`), 0) // the workspace is the sandbox's
	b.await(1)
	if lives := b.lives("default"); len(lives) != 2 || lives[0].Ended == nil || lives[1].Setup.Exit != "exit code 0" {
		t.Errorf("%+v", lives)
	}
}

// What waits in a pool has been set up.
func TestSetupCommandOfPool(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			b.cfg.SetupCommand = "echo ready | tee file"
			p := b.pool(1, nil)
			waiting := b.containers()
			e := b.open(func(c *sandbox.Config) { c.Pool = p })
			ended(t, begin(t, e, "", `test "$(cat file)" = ready`), 0)
			lives := b.lives("default")
			if len(lives) != 1 || !lives[0].Pooled || b.setupLog("default", lives[0].ID) != "ready\n" {
				t.Fatalf("%+v", lives)
			}
			if _, ok := waiting[lives[0].Container]; !ok {
				t.Errorf("%s is not one of %v", lives[0].Container, waiting)
			}
			ended(t, begin(t, b.open(func(c *sandbox.Config) { c.Name, c.Pool, c.SetupCommand = "other", p, "true" }), "", "test ! -e file"), 0)
		})
	}
}

// A new container on request: what runs goes on, and the workspace is the same.
func TestRecreate(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			e := b.open(nil)
			first, left, err := e.Recreate(t.Context()) // there was none
			if err != nil || len(left) > 0 {
				t.Fatalf("%s, %v, %v", first, left, err)
			}
			if n, err := sandbox.Running(b.cfg.StateDir, "default"); err != nil || n != 0 {
				t.Errorf("%d run before anything did, %v", n, err)
			}
			old := begin(t, e, "old", "echo kept >file; touch /tmp/mine; until test -e go; do sleep 0.05; done; exit 3")
			ended(t, begin(t, e, "", "until test -e /tmp/mine; do sleep 0.02; done"), 0)
			if n, err := sandbox.Running(b.cfg.StateDir, "default"); err != nil || n < 1 {
				t.Errorf("%d run, %v", n, err)
			}
			second, left, err := e.Recreate(t.Context())
			if err != nil || second == first || len(left) != 1 || left[0] != first {
				t.Fatalf("%s, %v, %v", second, left, err)
			}
			ended(t, begin(t, e, "", "test ! -e /tmp/mine && cat file"), 0)
			if n := len(b.containers()); n != 2 {
				t.Errorf("%d containers", n)
			}
			ended(t, begin(t, e, "", "touch go"), 0)
			ended(t, old, 3)
			b.await(1)
			// If none can be made, the one that there is goes on.
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.SetupCommand = "exit 1" })); err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.Recreate(t.Context()); err == nil {
				t.Error("a container was made")
			}
			if err := e.Configure(b.like(nil)); err != nil {
				t.Fatal(err)
			}
			ended(t, begin(t, e, "", "cat file"), 0)
			if s, err := sandbox.Find(b.cfg.StateDir, "default"); err != nil || len(s.Boxes) != 1 || s.Boxes[0].Container != second {
				t.Errorf("%+v, %v", s, err)
			}
			// An end is noted a moment after it is told.
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if n, err := sandbox.Running(b.cfg.StateDir, "default"); err == nil && n == 0 {
					break
				} else if err != nil || time.Now().After(end) {
					t.Fatalf("%d run, %v", n, err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.Recreate(t.Context()); !errors.Is(err, corral.ErrUnavailable) {
				t.Errorf("closed: %v", err)
			}
		})
	}
}
