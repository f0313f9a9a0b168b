package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A slowFreezer has something happen while it is about to freeze.
type slowFreezer struct {
	engine.Engine
	meanwhile func()

	mu     sync.Mutex
	frozen bool
}

func (f *slowFreezer) Pause(context.Context, string) error {
	f.meanwhile()
	f.set(true)
	return nil
}

func (f *slowFreezer) Resume(context.Context, string) error {
	f.set(false)
	return nil
}

func (f *slowFreezer) set(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = frozen
}

// A command that comes while its sandbox is being paused resumes it: nothing stays frozen that
// counts as running.
func TestCommandWhilePausing(t *testing.T) {
	state := testdir.New(t)
	rec := made(t, state, "main", 0)
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Boxes: []string{rec.ID}}, false); err != nil {
		t.Fatal(err)
	}
	f := &slowFreezer{}
	e := &Executor{stateDir: state, name: "main", dir: sandboxDir(state, "main"), engine: f, log: slog.New(slog.DiscardHandler)}
	woken := make(chan error, 1)
	f.meanwhile = func() { go func() { woken <- e.wake(t.Context()) }() }
	for range 20 {
		if err := Pause(t.Context(), f, state, "main"); err != nil {
			t.Fatal(err)
		}
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if err := e.wake(t.Context()); err != nil { // the command came too early to see that
			t.Fatal(err)
		}
		if f.frozen || isPaused(state, "main") {
			t.Fatalf("frozen %v, noted as paused %v", f.frozen, isPaused(state, "main"))
		}
	}
}
