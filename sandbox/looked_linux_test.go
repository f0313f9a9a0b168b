package sandbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// An aliveEngine is one of this machine whose containers all run.
type aliveEngine struct {
	nearEngine
	removed []string
}

func (*aliveEngine) Inspect(_ context.Context, name string) (engine.Container, error) {
	return engine.Container{ID: name, Name: name, Running: true}, nil
}

func (e *aliveEngine) Remove(_ context.Context, name string) error {
	e.removed = append(e.removed, name)
	return nil
}

// While a program looks whether a container that is left can be removed, another one does not
// take it for removed: what runs there would be ended.
func TestBoxThatIsLookedAt(t *testing.T) {
	state := testdir.New(t)
	eng := &aliveEngine{}
	e, err := New(Config{Engine: eng, StateDir: state, Name: "main", Driver: DriverExec})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var ids []string
	for n := range 2 {
		rec := made(t, state, "main", n)
		rec.Driver, rec.Engine, rec.Hash, rec.Container = DriverExec, "near", e.set.Load().hash, rec.ID
		if err := writeJSON(boxPath(state, rec.ID), rec, false); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.ID)
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Boxes: ids}, false); err != nil {
		t.Fatal(err)
	}
	lock, err := lockBox(boxDir(state, ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer closeLock(lock)
	other := &box{lock: lock}
	if alone, err := other.alone(); err != nil || !alone {
		t.Fatal(alone, err)
	}
	b, err := e.ready(t.Context(), "", false)
	if err != nil || b.ID != ids[1] {
		t.Fatalf("%+v, %v", b, err)
	}
	e.leave(b, "")
	// Who asks for a process that may be there is not told that it is lost.
	defer func(was time.Duration) { settleLimit = was }(settleLimit)
	settleLimit = 0
	if err := e.openAll(t.Context()); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	settleLimit = time.Minute
	shared := make(chan error, 1)
	time.AfterFunc(2*firstLook, func() { shared <- other.share() }) // something runs there
	if err := errors.Join(e.openAll(t.Context()), <-shared); err != nil || len(e.open()) != 2 {
		t.Errorf("%d open, %v", len(e.open()), err)
	}
	rec, err := loadSandbox(state, "main")
	if err != nil || !slices.Equal(rec.Boxes, ids) {
		t.Errorf("the sandbox has %v, %v; want %v", rec.Boxes, err, ids)
	}
	for _, id := range ids {
		if gone, err := sweepUnreferred(t.Context(), eng, state, id); err != nil || gone || len(eng.removed) > 0 {
			t.Errorf("removed %v, %v", eng.removed, err)
		}
	}
}
