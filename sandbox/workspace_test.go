package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// sweptEngine is an engine that has containers of an ephemeral sandbox whose
// owner is gone, and volumes.
type sweptEngine struct {
	engine.Engine
	containers []engine.Container
	removed    []string
	fails      error
}

func (e *sweptEngine) List(context.Context, map[string]string) ([]engine.Container, error) {
	return e.containers, nil
}

func (e *sweptEngine) Remove(_ context.Context, id string) error {
	e.removed = append(e.removed, id)
	return nil
}

func (e *sweptEngine) RemoveVolume(_ context.Context, name string) error {
	e.removed = append(e.removed, name)
	return e.fails
}

// A killed program leaves an ephemeral sandbox in a state directory, where another sandbox or
// other files are as well. A sweep removes only what belongs to the ephemeral one.
func TestSweepOfSharedDirectory(t *testing.T) {
	for _, with := range []string{"a sandbox", "files", "nothing"} {
		state := filepath.Join(testdir.New(t), "state")
		open := func(name string, ephemeral bool) *Executor {
			e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: name, Ephemeral: ephemeral})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.HostWorkspace(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		kept := "" // what has to stay
		switch with {
		case "a sandbox":
			e := open("lasting", false)
			dir, err := e.HostWorkspace(t.Context())
			if err := errors.Join(err, e.Close()); err != nil {
				t.Fatal(err)
			}
			kept = dir
		case "files":
			kept = filepath.Join(state, "data")
			if err := os.MkdirAll(kept, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		e := open("once", true)
		closeLock(e.owner) // as when it is killed
		labels := map[string]string{Label: "sandbox", labelState: state, labelName: "once", labelEphemeral: "1"}
		engine := &sweptEngine{containers: []engine.Container{{ID: "a", Name: "a", Labels: labels}}}
		if _, err := sweepContainers(t.Context(), engine, "/another"); err != nil {
			t.Errorf("with %s: %v", with, err)
		}
		if _, err := os.Stat(sandboxDir(state, "once")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("with %s: the ephemeral sandbox is left: %v", with, err)
		}
		left, _ := workspaceIDs(state)
		if _, err := os.Stat(kept); kept != "" && err != nil || len(left) > 0 && with != "a sandbox" || len(left) > 1 {
			t.Errorf("with %s: %v, workspaces %v", with, err, left)
		}
		if _, err := os.Stat(state); (err == nil) != (kept != "") {
			t.Errorf("with %s: %v", with, err)
		}
		_ = e.Close() // its goroutines; all else of it is gone
	}
}

// stuckEngine has a container of another sandbox that cannot be removed.
type stuckEngine struct{ sweptEngine }

func (*stuckEngine) Info(context.Context) (engine.Info, error) { return engine.Info{}, nil }

func (*stuckEngine) Inspect(context.Context, string) (engine.Container, error) {
	return engine.Container{}, engine.ErrNoContainer
}

func (*stuckEngine) Remove(context.Context, string) error {
	return errors.New("device or resource busy")
}

// A sandbox gets a container also if another's, which is gone, leaves one that cannot be
// removed, or if a crash left it one of its own.
func TestSweepOfWhatIsStuck(t *testing.T) {
	state := t.TempDir()
	made(t, state, "default", 1)
	labels := map[string]string{Label: "sandbox", labelState: filepath.Join(state, "gone"), labelEphemeral: "1"}
	engine := &stuckEngine{sweptEngine{containers: []engine.Container{{ID: "a", Name: "a", Labels: labels}}}}
	e, err := New(Config{Engine: engine, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.sweepOnce(t.Context()), e.Close()); err != nil {
		t.Error(err)
	}
}

// Volumes of an ephemeral sandbox are removed after the last of its containers,
// which have them, and before the only trace of them.
func TestSweepEphemeralVolumes(t *testing.T) {
	for _, fails := range []error{nil, errors.New("it is in use")} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "owner.lock"), nil, 0o600), os.MkdirAll(workspaceDir(dir, "w-1"), 0o700)); err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{Label: "sandbox", labelState: dir, labelEphemeral: "1"}
		engine := &sweptEngine{containers: []engine.Container{{ID: "a", Name: "a", Labels: labels}, {ID: "b", Name: "b", Labels: labels}}, fails: fails}
		names, err := sweepContainers(t.Context(), engine, "/another")
		if !slices.Equal(names, []string{"a", "b"}) || (err == nil) != (fails == nil) {
			t.Errorf("swept %v, %v", names, err)
		}
		if want := []string{"a", "b", "corral-workspace-w-1"}; !slices.Equal(engine.removed, want) {
			t.Errorf("removed %v, want %v", engine.removed, want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is left: %v", err)
		}
	}
}
