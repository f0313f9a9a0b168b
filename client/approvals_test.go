package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// withApprovals has a rig's gateways share a desk and a file of rules.
func withApprovals(t *testing.T) (*rig, *approval.Desk) {
	t.Helper()
	dir := t.TempDir()
	file, err := approval.NewFile(filepath.Join(dir, "exec-approvals.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	desk, err := approval.OpenDesk(approval.Options{Dir: filepath.Join(dir, "desk"), Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
		return file.Add(rec.Agent, rec.Scope, rules...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(desk.Close(), file.Close()); err != nil {
			t.Error(err)
		}
	})
	g := newRig(t)
	g.away()
	g.approvals, g.rules = desk, file
	g.back()
	return g, desk
}

func ask(t *testing.T, d *approval.Desk, agent, command string) approval.Record {
	t.Helper()
	req := policy.Request{Command: command, Shell: []string{"/bin/sh", "-c"}, Dir: "/", Path: "/usr/bin:/bin"}
	decision := policy.Decide(req, policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist}, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
	}, policy.OS{})
	binding, err := approval.Bind(req, decision, nil, policy.OS{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := d.Ask(t.Context(), approval.Request{Agent: agent, Host: corral.HostGateway, Command: req, Decision: decision, Binding: binding})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestApprovals(t *testing.T) {
	g, desk := withApprovals(t)
	c := g.client(nil)
	one, two := ask(t, desk, "main", "ls a"), ask(t, desk, "other", "ls b")
	for want, f := range map[int]approval.Filter{2: {}, 1: {Agent: "other", State: approval.Pending}, 0: {SessionKey: "x"}} {
		if list, err := c.Approvals(t.Context(), f); err != nil || len(list) != want {
			t.Errorf("%+v: %+v, %v", f, list, err)
		}
	}
	if rec, err := c.Approval(t.Context(), one.Slug); err != nil || rec.ID != one.ID {
		t.Errorf("%+v, %v", rec, err)
	}
	for _, ref := range []string{"", "no-such", "../sessions", "rules", "changes", "a/b", "%2e"} {
		if _, err := c.Approval(t.Context(), ref); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("%q: %v", ref, err)
		}
		if _, err := c.Answer(t.Context(), ref, approval.Answer{Decision: approval.Deny}); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if rec, err := c.Answer(t.Context(), one.ID, approval.Answer{Decision: approval.AllowAlways, Scope: approval.ScopeProgram, By: "me"}); err != nil || rec.AnsweredBy != "me" || rec.State != approval.Allowed {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := c.Answer(t.Context(), one.ID, approval.Answer{Decision: approval.Deny}); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("a second answer: %v", err)
	}
	rules, err := c.Rules(t.Context(), "main")
	if err != nil || len(rules.Rules) != 1 || rules.File == "" {
		t.Fatalf("%+v, %v", rules, err)
	}
	if err := c.AddRule(t.Context(), "*", policy.Rule{Action: policy.Deny, Pattern: "rm"}); err != nil {
		t.Error(err)
	}
	if n, err := c.RemoveRule(t.Context(), "*", "rm"); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := c.RemoveRule(t.Context(), "*", "rm"); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
	// Another person answers first.
	rec, err := c.AwaitApproval(t.Context(), two, func(ctx context.Context, rec approval.Record) (approval.Answer, error) {
		if _, err := desk.Answer(ctx, rec.ID, approval.Answer{Decision: approval.Deny, By: "bob"}); err != nil {
			t.Error(err)
		}
		return approval.Answer{Decision: approval.AllowOnce, By: "alice"}, nil
	})
	if err != nil || rec.State != approval.Denied || rec.AnsweredBy != "bob" {
		t.Errorf("%+v, %v", rec, err)
	}
	three := ask(t, desk, "main", "ls c")
	nobody := errors.New("nobody is there")
	if _, err := c.AwaitApproval(t.Context(), three, func(context.Context, approval.Record) (approval.Answer, error) { return approval.Answer{}, nobody }); !errors.Is(err, nobody) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.AwaitApproval(ctx, three, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Changes go on where they were when the gateway was away, and so does a wait.
func TestApprovalChanges(t *testing.T) {
	g, desk := withApprovals(t)
	c := g.client(nil)
	one := ask(t, desk, "main", "ls a")
	waited := make(chan approval.Record)
	go func() {
		rec, err := c.AwaitApproval(t.Context(), one, nil)
		if err != nil {
			t.Error(err)
		}
		waited <- rec
	}()
	seen := 0
	for rec, err := range c.ApprovalChanges(t.Context(), client.ApprovalOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if rec.Seq != int64(seen) || rec.ID != one.ID {
			t.Errorf("%d: %+v", seen, rec)
		}
		if seen == 2 {
			break
		}
		g.away()
		if _, err := desk.Answer(t.Context(), one.ID, approval.Answer{Decision: approval.AllowOnce}); err != nil {
			t.Fatal(err)
		}
		g.back()
	}
	if rec := <-waited; rec.State != approval.Allowed {
		t.Errorf("%+v", rec)
	}
	for rec, err := range c.ApprovalChanges(t.Context(), client.ApprovalOptions{Agent: "other", Once: true}) {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestPendingApproval(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), corral.ErrApproval, corral.Errorf(corral.ErrApproval, "", "x")} {
		if rec, ok := client.PendingApproval(err); ok {
			t.Errorf("%v: %+v", err, rec)
		}
	}
}
