//go:build e2e && linux

package escape_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A target is an engine with a runtime.
type target struct {
	name    string // as the table calls it
	runtime string // of sandbox.Config
	// open connects to the engine, with the image of the tests there.
	open func(t *testing.T) weakener
}

// gvisor reports whether gVisor is the kernel.
func (tg target) gvisor() bool { return strings.HasPrefix(tg.runtime, "runsc") }

// heldBy is why gVisor holds a probe even in the weakened container; empty if it does
// not.
func (tg target) heldBy(p probes.Probe) string {
	opens := tg.runtime == "runsc-uds"
	if !tg.gvisor() || opens && (p.GVisor == probes.NoHostSockets || p.GVisor == probes.OverStreams) {
		return ""
	}
	return p.GVisor
}

// A weakener is an engine that makes sandboxes, and copies of them that are weaker.
type weakener interface {
	engine.Engine
	// weaken runs a program to its end in a copy of a container of the product,
	// made weaker.
	weaken(ctx context.Context, t *testing.T, original string, with control)
}

// A control is what runs in a weakened container.
type control struct {
	weakening probes.Weakening
	args      []string
	env       []string // beside the original's
	binds     []bind   // beside the original's, for the weakenings that mount something
	// workspace is where that of the original is on the disk, and who has its files:
	// by the original's mount, with mapped IDs, it cannot be had any more.
	workspace string
	owner     int
}

type bind struct {
	source, target string
	readOnly       bool
}

// targets are all that there is a column for.
var targets = []target{
	{name: "docker/runc", open: openDocker},
	{name: "docker/runsc", runtime: "runsc", open: openDocker},
	{name: "containerd", open: openContainerd},
}

// scored are those of the scoreboard.
var scored = slices.Insert(slices.Clone(targets), 2, target{name: "docker/runsc, open sockets", runtime: "runsc-uds", open: openDocker})
