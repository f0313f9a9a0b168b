package sandbox

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/place"
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
	here := place.Of(state, false)
	if here.Boot == "" || here.Inode == "" {
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
		{name: "of another /tmp, or in a container", place: place.Place{Machine: here.Machine, Boot: here.Boot, Mounts: "mnt:[1]", Inode: "1:1"}.String()},
		{name: "of another directory, by one that sees ours", place: place.Place{Machine: here.Machine, Boot: here.Boot, Mounts: here.Mounts, Inode: "1:1"}.String(), ephemeral: true},
		{name: "of another machine", place: place.Place{Machine: "another", Boot: boot, Mounts: here.Mounts, Inode: here.Inode}.String()},
		{name: "of a machine that has no name", place: place.Place{Machine: "", Boot: boot, Mounts: here.Mounts, Inode: here.Inode}.String()},
		{name: "in a container that runs", place: place.Place{Machine: "", Boot: here.Boot, Mounts: "mnt:[1]", Inode: "1:1"}.String(), owner: "runs"},
		{name: "in a container that has ended", place: place.Place{Machine: "", Boot: here.Boot, Mounts: "mnt:[1]", Inode: "1:1"}.String(), owner: "ended", ephemeral: true},
		{name: "in a container that is gone", place: place.Place{Machine: "", Boot: here.Boot, Mounts: "mnt:[1]", Inode: "1:1"}.String(), owner: "gone", ephemeral: true},
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
				{ID: "lasting", Name: "corral-b-none", Labels: labels(map[string]string{labelState: state, labelBox: "b-none"})},
				// A user's, of an image that was made of one of them: it has its labels.
				{ID: "copy", Name: "copy", Labels: labels(map[string]string{labelState: state, labelBox: "b-none"})},
				{ID: "copy of ephemeral", Name: "another", Labels: labels(map[string]string{labelState: filepath.Join(state, "gone"), labelBox: "b-gone", labelEphemeral: "1"})},
			}}}
			if _, err := sweepContainers(t.Context(), engine, state); err != nil {
				t.Fatal(err)
			}
			for id, want := range map[string]bool{"ephemeral": tt.ephemeral, "lasting": tt.lasting, "copy": false, "copy of ephemeral": false} {
				if got := slices.Contains(engine.removed, id); got != want {
					t.Errorf("%s: removed: %t, want %t", id, got, want)
				}
			}
		})
	}
}
