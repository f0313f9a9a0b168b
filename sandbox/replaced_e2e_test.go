//go:build e2e

package sandbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
)

// The first command of a container that replaces another one is told: a server that an earlier
// one left is not there, nor is what was in /tmp.
func TestNewContainerIsTold(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			b := newBench(t)
			b.cfg.Driver = driver
			e := b.open(nil)
			told := func(when string, want bool) {
				t.Helper()
				p, err := e.Start(t.Context(), corral.Command{Shell: "true"})
				if err != nil {
					t.Fatal(when, err)
				}
				warnings := p.Info().Warnings
				if got := slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "new container") }); got != want {
					t.Errorf("%s: %q", when, warnings)
				}
				ended(t, p, 0)
			}
			again := func(when string) {
				t.Helper()
				told(when, true)
				told(when+", once more", false)
			}
			told("at first", false)
			told("then", false)
			if err := e.Configure(b.like(func(c *sandbox.Config) { c.Resources.Pids = 77 })); err != nil {
				t.Fatal(err)
			}
			again("another configuration")
			for name := range b.containers() { // the old one may be gone meanwhile
				if out, err := exec.Command("docker", "kill", name).CombinedOutput(); err != nil {
					t.Logf("%v: %s", err, out)
				}
			}
			time.Sleep(time.Second) // the sandbox has given it up
			again("it died")
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			again("it was stopped")
			if err := e.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			told("the sandbox was removed", false)
		})
	}
}
