package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/files"
)

// A nearEngine is one of this machine that has no containers.
type nearEngine struct{ engine.Engine }

func (nearEngine) Info(context.Context) (engine.Info, error) {
	return engine.Info{Name: "near", Local: true}, nil
}

func (nearEngine) Inspect(context.Context, string) (engine.Container, error) {
	return engine.Container{}, engine.ErrNoContainer
}

// A workspace that was used just now stays, however long it had not been: whether who prunes
// has the sandbox open, or another, and although nothing runs there.
func TestPruneJustUsed(t *testing.T) {
	state := testdir.New(t)
	open := func() *Executor {
		e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: "main"})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	write := func(e *Executor, name string) string {
		fsys, err := e.Files(t.Context())
		if err == nil {
			err = files.WriteFile(t.Context(), fsys, name, []byte("work"))
		}
		if err != nil {
			t.Fatal(err)
		}
		dir, err := e.HostWorkspace(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	e := open()
	old := write(e, "old")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(sandboxDir(state, "main"), usedFile), long, long); err != nil {
		t.Fatal(err)
	}
	e = open()
	defer e.Close()
	file := write(e, "new")
	o := PruneOptions{Idle: 24 * time.Hour}
	for _, prune := range []func() ([]string, error){
		func() ([]string, error) { return e.Prune(t.Context(), o) },
		func() ([]string, error) {
			return Prune(t.Context(), nearEngine{}, state, func(Sandbox) PruneOptions { return o })
		},
		func() ([]string, error) { return nil, e.pruneWorkspace(t.Context(), o) }, // who had looked before
	} {
		if _, err := prune(); err != nil {
			t.Error(err)
		}
		for _, f := range []string{old, file} {
			if _, err := os.Stat(f); err != nil {
				t.Error(err)
			}
		}
	}
	// One that was not used goes.
	if err := e.pruneWorkspace(t.Context(), PruneOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the workspace is left: %v", err)
	}
}

// A sandbox that is forgotten while it is opened is as new, and can be used.
func TestForgetWhileOpened(t *testing.T) {
	state := testdir.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var forgetting sync.WaitGroup
	defer forgetting.Wait()
	forgetting.Go(func() {
		for ctx.Err() == nil {
			_ = Forget(ctx, state, "main") // or it is another time
		}
	})
	for ctx.Err() == nil {
		e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: "main"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.HostWorkspace(t.Context())
		if err = errors.Join(err, e.Remove(t.Context()), e.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Of two who remove a container that is not used any more at a time, one says so.
func TestRemovedOnce(t *testing.T) {
	state := testdir.New(t)
	e, err := New(Config{Engine: &wordy{}, StateDir: state, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	rec := made(t, state, "main", 1)
	b, err := e.openBox(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.dead, e.boxes[b.ID] = true, b
	for _, want := range []bool{true, false} { // both had it on their lists
		if gone, err := e.tryRemove(t.Context(), b); err != nil || gone != want {
			t.Errorf("%v, %v; want %v", gone, err, want)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// What a program left that was killed while it forgot a sandbox is removed.
func TestSweepForgotten(t *testing.T) {
	state := testdir.New(t)
	e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(sandboxDir(state, "main"), sandboxDir(state, forgotten+"main")); err != nil {
		t.Fatal(err)
	}
	if _, err := Sweep(t.Context(), &sweptEngine{}, state); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(state, sandboxesDir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Commands that were lost with their container, and that no program asked about, do not keep
// what is noted of a sandbox for ever, nor do old records of the driver exec.
func TestForgetUnended(t *testing.T) {
	state := testdir.New(t)
	e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.HostWorkspace(t.Context())
	if err = errors.Join(err, e.Remove(t.Context()), e.Close()); err != nil {
		t.Fatal(err)
	}
	dir, past := sandboxDir(state, "main"), time.Now().Add(-30*24*time.Hour)
	for name, text := range map[string]string{logsDir + "/" + wardenexec.JournalName: "S lost 7 agent\n", execDir + "/old.json": `{"info":{}}`, usedFile: ""} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, past, past)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Running(state, "main"); n != 2 || err != nil {
		t.Fatalf("%d commands without an end, %v", n, err)
	}
	if _, err := Prune(t.Context(), nearEngine{}, state, func(Sandbox) PruneOptions { return PruneOptions{Idle: 24 * time.Hour} }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is kept for ever: %v", err)
	}
}
