package guard

import (
	"context"
	"errors"
	"testing"

	"github.com/corral-exec/corral"
)

// removedWhenFound is an executor that removes every process right after Attach found it.
type removedWhenFound struct{ corral.Executor }

func (x removedWhenFound) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := x.Executor.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := p.Wait(ctx); err != nil {
		return nil, err
	}
	return p, p.Remove(ctx)
}

// If a process is removed while a gateway starts its ID again, the command does not run
// a second time, neither without an approval nor by a used one.
func TestNodeRunsNothingWhenStartingAgain(t *testing.T) {
	p := newPair(t, nodeSettings, nodeSettings)
	rec := p.pendingAtGateway(corral.Command{ID: "one", Shell: "tool a"})
	p.gw.answer(rec, "allow-once")
	cmd := corral.Command{ID: "one", Shell: "tool a", Approval: rec.ID}
	if _, err := p.start(cmd); err != nil {
		t.Fatal(err)
	}
	p.node.host = removedWhenFound{p.host}
	cmd.Approval = ""
	if _, err := p.node.StartFor(t.Context(), "main", cmd); err != nil {
		t.Fatal(err)
	}
	if n := p.host.Starts(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	p.node.host = p.host
	if _, err := p.node.StartFor(t.Context(), "main", cmd); err == nil || errors.Is(err, corral.ErrConflict) || p.host.Starts() != 1 {
		t.Errorf("removed by now: %v, ran %d times", err, p.host.Starts())
	}
}
