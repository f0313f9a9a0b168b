package guard

import (
	"context"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// oneNode is a node with one id, found by every name.
type oneNode struct {
	name string
	err  error
}

func (n *oneNode) Decide(context.Context, string, string, corral.Command) (id, name string, said []byte, err error) {
	return "id-of-it", n.name, []byte(lie(func(a *answer) { a.Decision.Outcome = policy.Asked })), n.err
}

// onNodes is a record whose commands go to nodes.
type onNodes struct{ *record }

func (h onNodes) Run(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	out, err := h.guard.For(rec.Agent)(ctx, cmd, corral.Route{Host: corral.HostNode, Node: cmd.Node, Guarded: true})
	if err == nil {
		h.mu.Lock()
		h.ran = append(h.ran, out)
		h.mu.Unlock()
		h.changed <- struct{}{}
	}
	return err
}

func (r *rig) serveNodes() *record {
	h := &record{rig: r, sessions: map[string]bool{}, changed: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.guard.Serve(ctx, onNodes{h}) }()
	r.stop = func() { cancel(); <-done }
	return h
}

func (r *rig) pendingOnNode(cmd corral.Command) approval.Record {
	r.Helper()
	_, err := r.guard.For("main")(r.Context(), cmd, toNode)
	p, ok := approval.AsPending(err)
	if !ok {
		r.Fatal(err)
	}
	return p.Record
}

// An approval is for a node, even if the node has another name by now.
func TestNodeRenamedMeanwhile(t *testing.T) {
	r := newRig(t, nodeSettings)
	n := &oneNode{name: "builder"}
	r.nodes = n
	r.again()
	rec := r.pendingOnNode(corral.Command{ID: "one", Shell: "tool"})
	n.name = "other"
	if same := r.pendingOnNode(corral.Command{ID: "two", Shell: "tool"}); same.ID != rec.ID {
		t.Errorf("it is asked for again: %+v", same)
	}
	h := r.serveNodes()
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 1 || ran[0].ID != "one" || len(denials) != 0 {
		t.Errorf("%+v, %q", ran, denials)
	}
}

// A command allowed for a node that was removed is denied for good, with that reason.
func TestNodeGoneMeanwhile(t *testing.T) {
	r := newRig(t, nodeSettings)
	n := &oneNode{name: "builder"}
	r.nodes = n
	r.again()
	rec := r.pendingOnNode(corral.Command{ID: "one", Shell: "tool"})
	n.err = &corral.Error{Kind: corral.ErrUnavailable, Text: "no node answers to builder", Err: corral.ErrNoNode}
	h := r.serveNodes()
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 0 || len(denials) != 1 || !strings.HasSuffix(denials[0], "and came to nothing: no node answers to builder") {
		t.Errorf("%+v, %q", ran, denials)
	}
	r.again() // it is not tried again, even if such a node comes back
	n.err = nil
	h = r.serveNodes()
	h.next()
	now, err := r.desk.Get("main", rec.ID)
	r.ok(err)
	if ran, _, denials := h.got(); now.State != approval.Denied || now.Verdict != approval.AllowOnce || len(ran) != 0 || len(denials) != 1 {
		t.Errorf("%+v, %+v, %q", now, ran, denials)
	}
}

// A node that is away does not block other commands.
func TestNodeAwayMeanwhile(t *testing.T) {
	r := newRig(t, nodeSettings)
	n := &oneNode{name: "builder"}
	r.nodes = n
	r.again()
	away, here := r.pendingOnNode(corral.Command{ID: "one", Shell: "tool a"}), r.pendingOnNode(corral.Command{ID: "two", Shell: "tool b"})
	n.err = corral.Errorf(corral.ErrUnavailable, "", "it is offline")
	h := r.serveNodes()
	r.answer(away, approval.AllowOnce)
	r.answer(here, approval.Deny)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 0 || len(denials) != 1 || !strings.Contains(denials[0], here.Slug) {
		t.Errorf("%+v, %q", ran, denials)
	}
	if now, err := r.desk.Get("main", away.ID); err != nil || now.State != approval.Allowed {
		t.Errorf("what is allowed on a node that is away: %+v, %v", now, err)
	}
}
