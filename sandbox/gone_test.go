package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Why a container has ended is said as far as it is known. Engines note that some
// process in it ran out of memory for as long as it is there.
func TestGone(t *testing.T) {
	const plain = "the warden has ended"
	for _, tt := range []struct {
		c    engine.Container
		want string
	}{
		{engine.Container{Exit: 137, OOM: true}, plain + ": there was no memory left in the sandbox, or for it"},
		{engine.Container{Exit: 2, OOM: true}, plain + ": its init ended by itself, with code 2; something in it had been killed because there was no memory left"},
		{engine.Container{Exit: 1}, plain + ": its init ended by itself, with code 1"},
		{engine.Container{Exit: 137}, plain},
		{engine.Container{}, plain},
	} {
		if err := (&box{dir: t.TempDir()}).gone(engine.EndOf(tt.c)); !errors.Is(err, wardenexec.ErrGone) || err.Error() != tt.want {
			t.Errorf("%+v: %v, want %s", tt.c, err, tt.want)
		}
	}
	// Who removed it knows better, whatever the engine says.
	b := &box{dir: t.TempDir()}
	for _, tt := range []struct {
		end  *engine.End
		want string
	}{
		{&engine.End{Removed: true}, plain + ": its container was removed"},
		{&engine.End{Removed: true, Why: "it was late"}, plain + ": it was late"},
	} {
		if err := noteLife(b.dir, func(l *life) { l.Ended = tt.end }); err != nil {
			t.Fatal(err)
		}
		if err := b.gone(engine.EndOf(engine.Container{Exit: 137, OOM: true})); err.Error() != tt.want {
			t.Errorf("%+v: %v, want %s", tt.end, err, tt.want)
		}
	}
}

// lateNews is an engine that says that a container ended, and only later of what.
type lateNews struct {
	engine.Engine
	asked int
}

func (e *lateNews) Inspect(context.Context, string) (engine.Container, error) {
	e.asked++
	return engine.Container{ID: "c", Exit: 137, OOM: e.asked > 3, Labels: map[string]string{labelBox: "b"}}, nil
}

func TestGoneOfMemory(t *testing.T) {
	b := &box{boxRecord: boxRecord{Box: Box{ID: "b", Container: "c"}}, dir: t.TempDir(), engine: &lateNews{}, log: slog.New(slog.DiscardHandler)}
	for range 2 { // the second time it is in the box's record
		if _, err := b.connect(t.Context(), false); !errors.Is(err, wardenexec.ErrGone) || !strings.Contains(err.Error(), "no memory left") {
			t.Errorf("%v", err)
		}
	}
}

// If only the warden of a command is known, the command says how that warden ended, as long
// as the sandbox's history goes back.
func TestHowEnded(t *testing.T) {
	state := testdir.New(t)
	e := &Executor{stateDir: state, name: "main", dir: sandboxDir(state, "main")}
	eng := &wordy{c: engine.Container{Exit: 3}}
	for n := range 3 {
		rec := made(t, state, "main", n)
		if err := noteLife(boxDir(state, rec.ID), func(l *life) { l.Warden = uint64(7 + n) }); err != nil {
			t.Fatal(err)
		}
		if n == 0 { // is still there, and nothing is known
			continue
		}
		if n == 2 {
			if err := noteEnd(boxDir(state, rec.ID), &engine.End{Removed: true, Why: "it was late"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := removeBox(t.Context(), eng, state, rec); err != nil {
			t.Fatal(err)
		}
	}
	for warden, want := range map[uint64]string{0: "", 6: "", 7: "", 8: "its init ended by itself, with code 3", 9: "it was late"} {
		if got := e.howEnded(warden); got != want {
			t.Errorf("%d: %q, want %q", warden, got, want)
		}
	}
}
