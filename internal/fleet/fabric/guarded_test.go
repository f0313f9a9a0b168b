package fabric_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// guarded has a policy: what it says.
type guarded struct {
	*fakeexec.Executor
	says func(agent string, cmd corral.Command) ([]byte, error)

	mu   sync.Mutex
	told []string // agent, security and grant of what is to be started
}

func (g *guarded) StartFor(ctx context.Context, agent string, cmd corral.Command) (corral.Process, error) {
	g.mu.Lock()
	g.told = append(g.told, agent, cmd.Security, string(cmd.Decided.Grant))
	g.mu.Unlock()
	if _, err := g.says(agent, cmd); err != nil {
		return nil, err
	}
	cmd.Decided.Grant = nil
	return g.Start(ctx, cmd)
}

func (g *guarded) Decide(_ context.Context, agent string, cmd corral.Command) ([]byte, error) {
	return g.says(agent, cmd)
}

// A node with a policy is asked by the agent that the gateway names, and says
// what it decides, or that it refuses.
func TestGuarded(t *testing.T) {
	g := &guarded{says: func(agent string, cmd corral.Command) ([]byte, error) {
		switch cmd.Shell {
		case "print":
			return []byte(`{"of":"` + agent + `"}`), nil
		case "long":
			return []byte(`"` + strings.Repeat("x", fabric.MaxDecision) + `"`), nil
		case "broken":
			return []byte(`{`), nil
		}
		return nil, corral.Errorf(corral.ErrDenied, "ask the operator", "not here")
	}}
	r := newRigServing(t, func(x *fakeexec.Executor) corral.Executor { g.Executor = x; return g })
	ask := func(op fabric.Op, agent string, cmd corral.Command) fabric.Answer {
		t.Helper()
		body, err := fabric.EncodeStart(agent, cmd, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := r.header(op, "job")
		r.send(r.seal(h, body)...)
		return r.answer(h.Seq)
	}
	if a := ask(fabric.OpDecide, "nightly", corral.Command{ID: "job", Shell: "print"}); string(a.Decision) != `{"of":"nightly"}` || a.Error != nil {
		t.Errorf("%+v", a)
	}
	for shell, want := range map[string]string{"other": "not here", "long": "more than 49152", "broken": "cannot be sent"} {
		if a := ask(fabric.OpDecide, "main", corral.Command{ID: "job", Shell: shell}); a.Error == nil || !strings.Contains(a.Error.Message, want) || a.Decision != nil {
			t.Errorf("%s: %+v", shell, a)
		}
	}
	if a := ask(fabric.OpDecide, "*", corral.Command{ID: "job", Shell: "print"}); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), corral.ErrInvalid) {
		t.Errorf("%+v", a)
	}
	if a := ask(fabric.OpStart, "main", corral.Command{ID: "job", Shell: "print", Decided: decided.About{Grant: make([]byte, fabric.MaxGrant+1)}}); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), corral.ErrInvalid) {
		t.Errorf("%+v", a)
	}
	if r.exec.Starts() != 0 || len(g.told) != 0 {
		t.Fatalf("%d started, %q", r.exec.Starts(), g.told)
	}
	if a := ask(fabric.OpStart, "main", corral.Command{ID: "job", Shell: "other"}); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), corral.ErrDenied) || a.Error.Hint != "ask the operator" {
		t.Errorf("%+v", a)
	}
	if a := ask(fabric.OpStart, "nightly", corral.Command{ID: "job", Shell: "print", Security: "allowlist", Decided: decided.About{Grant: []byte("by alice")}}); a.Info == nil || r.exec.Starts() != 1 {
		t.Errorf("%+v", a)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := strings.Join(g.told[3:], "|"); got != "nightly|allowlist|by alice" {
		t.Errorf("%q", got)
	}
}

// One without a policy says so.
func TestUnguarded(t *testing.T) {
	r := newRig(t)
	h := r.header(fabric.OpDecide, "job")
	r.send(r.seal(h, startBody(t, "job", "print"))...)
	if a := r.answer(h.Seq); a.Error == nil || !errors.Is(fabric.DecodeError(a.Error), errors.ErrUnsupported) || r.exec.Starts() != 0 {
		t.Errorf("%+v", a)
	}
}
