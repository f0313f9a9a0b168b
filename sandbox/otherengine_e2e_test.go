//go:build e2e

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What runs at one Docker engine is not lost, or removed, by who uses another one. These two
// have one ID, as those of a machine have before version 23.
func TestTwoDockers(t *testing.T) {
	address := enginetest.Dockerd(t, nil)
	enginetest.CopyImage(t, address, images.Busybox)
	other, err := docker.New(docker.Options{Host: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			there := func(c *sandbox.Config) { c.Engine = other }
			first := b.open(nil)
			long := begin(t, first, "long", "echo kept >file; sleep 300")
			if driver != sandbox.DriverExec { // by which commands are lost with the program
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
			}
			e := b.open(there)
			if _, err := e.Attach(t.Context(), "long"); driver != sandbox.DriverExec && !errors.Is(err, corral.ErrUnavailable) {
				t.Errorf("attach: %v", err)
			}
			for what, err := range map[string]error{"rm": e.Remove(t.Context()), "stop": e.Stop(t.Context()), "pause": e.Pause(t.Context())} {
				if !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" {
					t.Errorf("%s: %v", what, err)
				}
			}
			if names, err := sandbox.Sweep(t.Context(), other, b.cfg.StateDir); err != nil || len(names) > 0 {
				t.Errorf("swept %v, %v", names, err)
			}
			// A command gets a container there, with the workspace.
			ended(t, begin(t, e, "", "until grep kept file; do sleep 0.1; done"), 0)
			if _, err := e.Prune(t.Context(), sandbox.PruneOptions{Idle: 1, Age: 1, Lifetime: 1}); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if got := b.containers(); len(got) != 1 {
				t.Errorf("the first engine has %v", got)
			}
			if driver != sandbox.DriverExec {
				if long, err = b.open(nil).Attach(t.Context(), "long"); err != nil {
					t.Fatal(err)
				}
			}
			soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if exit, err := long.Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("its command has ended: %+v, %v", exit, err)
			}
			cancel()
			if err := b.open(there).Abandon(t.Context()); err != nil {
				t.Error(err)
			}
			for name := range b.containers() { // left, as nothing knows of it any more
				if err := b.engine.Remove(context.WithoutCancel(t.Context()), name); err != nil {
					t.Error(err)
				}
			}
			if list, err := sandbox.List(t.Context(), other, b.cfg.StateDir); err != nil || len(list) > 0 {
				t.Errorf("the other engine has %v, %v", list, err)
			}
		})
	}
}

// A containerd that was restarted is the one that it was, and another is not.
func TestTwoContainerds(t *testing.T) {
	daemon := enginetest.NewDaemon(t)
	eng := daemon.Engine(t)
	identity := func(e engine.Engine) string {
		info, err := e.Info(t.Context())
		if err != nil || info.ID == "" {
			t.Fatalf("%+v, %v", info, err)
		}
		return info.ID
	}
	b := newBench(t)
	b.cfg.Engine = eng
	e := b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
	was := identity(eng)
	daemon.Kill(t)
	daemon.Start(t)
	if is := identity(eng); is != was {
		t.Errorf("it was %s, and is %s", was, is)
	}
	other := b.open(func(c *sandbox.Config) { c.Engine = enginetest.Containerd(t) })
	if err := other.Remove(t.Context()); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("rm through another: %v", err)
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A container that its user renamed goes on, and is removed.
func TestRenamedContainer(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
	s, err := e.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "rename", s.Container.Name, s.Container.Name+"-mine").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = b.open(nil)
	ended(t, begin(t, e, "", "true"), 0)
	if got := b.containers(); len(got) != 1 || !got[s.Container.Name+"-mine"] {
		t.Errorf("containers %v", got)
	}
	if err := e.Remove(t.Context()); err != nil || len(b.containers()) > 0 {
		t.Errorf("left %v, %v", b.containers(), err)
	}
	if _, err := os.Stat(b.cfg.StateDir); err != nil {
		t.Error(err)
	}
}
