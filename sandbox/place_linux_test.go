package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corral-exec/corral/sandbox/engine"
)

// An ownersEngine knows the containers of owners.
type ownersEngine struct {
	sweptEngine
	owners map[string]bool // whether they run
}

func (e *ownersEngine) Inspect(_ context.Context, id string) (engine.Container, error) {
	running, ok := e.owners[id]
	if !ok {
		return engine.Container{}, engine.ErrNoContainer
	}
	return engine.Container{ID: id, Running: running}, nil
}

// Only who sees a state directory can tell by it that a container is of no use.
func TestSweepOfOthers(t *testing.T) {
	state := t.TempDir()
	here := placeOf(state, false)
	if here.boot == "" || here.inode == "" {
		t.Fatalf("%+v", here)
	}
	const boot = "11111111-2222-3333-4444-555555555555"
	for _, tt := range []struct {
		name  string
		place string
		owner string
		// Which of them are removed, of a directory that is gone and has no box.
		ephemeral, lasting bool
	}{
		{name: "of an earlier version", ephemeral: true, lasting: true},
		{name: "ours", place: here.String(), ephemeral: true, lasting: true},
		{name: "of another /tmp, or in a container", place: place{here.machine, here.boot, "mnt:[1]", "1:1"}.String()},
		{name: "of another directory, by one that sees ours", place: place{here.machine, here.boot, here.mounts, "1:1"}.String(), ephemeral: true},
		{name: "of another machine", place: place{"another", boot, here.mounts, here.inode}.String()},
		{name: "of a machine that has no name", place: place{"", boot, here.mounts, here.inode}.String()},
		{name: "in a container that runs", place: place{"", here.boot, "mnt:[1]", "1:1"}.String(), owner: "runs"},
		{name: "in a container that has ended", place: place{"", here.boot, "mnt:[1]", "1:1"}.String(), owner: "ended", ephemeral: true},
		{name: "in a container that is gone", place: place{"", here.boot, "mnt:[1]", "1:1"}.String(), owner: "gone", ephemeral: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			labels := func(more map[string]string) map[string]string {
				more[Label] = "sandbox"
				if tt.place != "" {
					more[labelPlace] = tt.place
				}
				if tt.owner != "" {
					more[labelOwner] = tt.owner
				}
				return more
			}
			// The parent of the ephemeral one's directory is state.
			engine := &ownersEngine{owners: map[string]bool{"runs": true, "ended": false}, sweptEngine: sweptEngine{containers: []engine.Container{
				{ID: "ephemeral", Name: "ephemeral", Labels: labels(map[string]string{labelState: filepath.Join(state, "gone"), labelEphemeral: "1"})},
				{ID: "lasting", Name: "lasting", Labels: labels(map[string]string{labelState: state, labelBox: "b-none"})},
			}}}
			if _, err := sweepContainers(t.Context(), engine, state); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[string]bool{"ephemeral": tt.ephemeral, "lasting": tt.lasting} {
				if got := slices.Contains(engine.removed, id); got != want {
					t.Errorf("%s: removed: %t, want %t", id, got, want)
				}
			}
		})
	}
}

// After the machine was started anew an inode may be another, and nothing is in
// use that was.
func TestPlaceAfterARestart(t *testing.T) {
	now := place{"m", "now", "mnt:[1]", "2:2"}
	if !(place{"m", "before", "mnt:[1]", "1:1"}).sees(now, false) {
		t.Error("what is left from before is never removed")
	}
	if p := parsePlace(now.String()); p != now {
		t.Errorf("%+v", p)
	}
	if p := parsePlace("x"); p.sees(now, true) || p.machine != "x" {
		t.Errorf("%+v", p)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if placeOf(filepath.Join(dir, "x"), true) != placeOf(filepath.Join(dir, "gone"), true) || placeOf(dir, false) != placeOf(filepath.Join(dir, "x"), true) {
		t.Error("an ephemeral directory is not known by the one that it is in")
	}
}
