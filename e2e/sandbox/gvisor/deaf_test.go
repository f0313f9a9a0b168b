//go:build e2e

package gvisor_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// GVisor lets a command send PID 1 any signal, which Linux does not. Nothing comes of
// them.
func TestDeafToSignals(t *testing.T) {
	eng := enginetest.New(t)
	x, err := sandbox.New(sandbox.Config{
		Engine: eng, StateDir: testdir.New(t), Image: images.Busybox, WardenPath: wardenbintest.Build(t), Ephemeral: true,
		Runtime: sandboxtest.GVisorUDS, Driver: sandbox.DriverFDs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	run := func(text string) string {
		r, err := runner.Run(t.Context(), x, corral.Command{Shell: text, MergeStderr: true}, runner.Options{})
		switch {
		case err != nil:
			t.Errorf("%q: %v", text, err)
		case !r.Exit.Success():
			t.Errorf("%q: %v: %s", text, r.Exit, r.Stdout.String())
		}
		return strings.TrimSpace(r.Stdout.String())
	}
	run("echo here >/tmp/mark")
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			run("for i in 1 2 3; do s=64; while [ $s -gt 0 ]; do kill -$s 1; s=$((s - 1)); done; done; true")
		})
	}
	senders.Wait()
	var starts sync.WaitGroup
	for range 24 { // the most that the warden does at a time
		starts.Go(func() { run("/bin/true; sleep 0.1") })
	}
	starts.Wait()
	// The warden's threads come first, and a signal to one is a signal to it.
	if got := run("for s in 19 9; do p=1; while [ $p -lt $$ ]; do kill -$s $p && echo $s to $p; p=$((p + 1)); done; done; kill -19 -1; true"); strings.Contains(got, " to ") {
		t.Errorf("these were not refused: %q", got)
	}
	if got := run("cat /tmp/mark"); got != "here" {
		t.Errorf("it is another container: %q", got)
	}
}
