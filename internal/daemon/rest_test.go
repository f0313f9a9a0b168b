package daemon

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// Names that clients make up take no more memory than so much.
func TestAgentsThatAreMadeUp(t *testing.T) {
	h := newHosts(&Options{}, "", nil)
	first := h.of("agent-0")
	if h.of("agent-0") != first {
		t.Error("it is made anew each time")
	}
	for i := range recentAgents + 1 {
		h.of(fmt.Sprint("agent-", i))
	}
	if again := h.of("agent-0"); again == first || again.name != "agent-0" {
		t.Error("it is still there")
	}
}

// empty is an executor that says whether it has something.
type empty struct {
	*fakeexec.Executor
	unused, closed *bool
}

func (e empty) Unused() (bool, error) { return *e.unused, nil }

func (e empty) Close() error {
	*e.closed = true
	return e.Executor.Close()
}

// A sandbox that has nothing any more and was not used lately is closed; the next command
// opens it again, also for those who have it in hand.
func TestSandboxesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unused, closed bool
		opened := 0
		m := &fakeMachine{}
		b := m.backends()
		b.Sandbox = func(SandboxOptions) (Executor, error) {
			opened++
			closed = false
			return empty{&fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}, &unused, &closed}, nil
		}
		o := &Options{Backends: b, Settings: Settings{Mode: ModeAll}, Log: slog.New(slog.DiscardHandler)}
		h, err := openHosts(o, t.TempDir(), false, alone)
		if err != nil {
			t.Fatal(err)
		}
		start := func(l *lazySandbox) {
			t.Helper()
			if _, err := l.Start(t.Context(), corral.Command{Shell: "go", ID: corral.NewID()}); err != nil {
				t.Fatal(err)
			}
		}
		rest := func(want int) {
			t.Helper()
			if err := h.rest(); err != nil || len(h.boxes) != want || closed != (want == 0) {
				t.Errorf("%v: %d sandboxes, closed %t", err, len(h.boxes), closed)
			}
		}
		held := h.box("one", "main", "")
		start(held)
		time.Sleep(restAfter)
		rest(1) // it has something
		unused = true
		start(held)
		time.Sleep(restAfter - 1)
		rest(1) // it was used
		time.Sleep(time.Nanosecond)
		rest(0)
		start(held)
		if l := h.boxes["one"]; l == nil || l == held || opened != 2 {
			t.Errorf("%p, %p, opened %d times", l, held, opened)
		}
		h.box("never", "main", "") // one that was looked at alone
		time.Sleep(restAfter)
		rest(0)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
