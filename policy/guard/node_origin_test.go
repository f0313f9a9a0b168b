package guard

import (
	"errors"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// With the id of another agent's process, an agent can neither start nor find anything.
// Another gateway may not know that the id is taken.
func TestNodeKeepsAgentsApart(t *testing.T) {
	x := &fakeexec.Executor{
		Origin:   &origin.Origin{Agent: "ops"},
		Programs: map[string]fakeexec.Program{"sleep": fakeexec.Sleep},
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	cmd := corral.Command{ID: "job", Shell: "sleep"}
	if _, err := x.Start(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	n := NewNode(x, newRig(t, "").guard)
	if p, err := n.StartFor(t.Context(), "ops", cmd); err != nil || origin.Of(p).Agent != "ops" {
		t.Errorf("by its agent: %v", err)
	}
	for _, agent := range []string{"main", ""} {
		if _, err := n.StartFor(t.Context(), agent, cmd); !errors.Is(err, corral.ErrConflict) {
			t.Errorf("by the agent %q: %v", agent, err)
		}
	}
	if got := n.Running(); got != 0 { // this executor does not tell
		t.Errorf("%d processes run", got)
	}
}
