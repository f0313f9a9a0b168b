package tool

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/session"
)

// guarded makes tools whose commands all need an approval.
func guarded(t *testing.T, approve Approver) (*Tools, *approval.Desk) {
	t.Helper()
	dir := testdir.New(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	host, err := hostexec.New(hostexec.Config{InProcess: true, StateDir: filepath.Join(dir, "host"), Workspace: dir, Environ: []string{"PATH=/usr/bin:/bin"}})
	ok(err)
	settings, err := config.Parse("config.json5", []byte(`{tools: {exec: {security: "allowlist", ask: "on-miss"}}}`))
	ok(err)
	desk, err := approval.OpenDesk(approval.Options{Dir: filepath.Join(dir, "approvals")})
	ok(err)
	g := guard.New(guard.Config{Settings: func() *config.Config { return settings }, Desk: desk, Plan: host.Plan})
	router := corral.NewRouter(corral.RouterOptions{Host: corral.HostGateway, Gateway: host, Guard: g.For("main")})
	sessions, err := session.Open(t.Context(), session.Config{
		Dir: filepath.Join(dir, "sessions"), Executor: func(context.Context, string) (corral.Executor, error) { return router, nil },
	})
	ok(err)
	t.Cleanup(func() { ok(errors.Join(sessions.Close(), desk.Close(), host.Close())) })
	return New(Config{Agent: sessions.Agent("main"), Guard: g, Approve: approve}), desk
}

func TestApprove(t *testing.T) {
	var say func(context.Context, approval.Record) (approval.Answer, error)
	tools, desk := guarded(t, func(ctx context.Context, rec approval.Record) (approval.Answer, error) { return say(ctx, rec) })
	give := func(v approval.Verdict) {
		say = func(context.Context, approval.Record) (approval.Answer, error) {
			return approval.Answer{Decision: v, By: "me"}, nil
		}
	}
	give(approval.AllowOnce)
	// In the foreground: the result has all the output, so no session is left.
	if r := tools.Exec(t.Context(), ExecRequest{Command: "printf 1"}); r.Status != StatusCompleted || r.Output != "1" || r.SessionID != "" {
		t.Errorf("%+v", r)
	}
	if r := tools.Exec(t.Context(), ExecRequest{Command: "printf 2", SessionID: "mine"}); r.Status != StatusCompleted || r.SessionID != "mine" {
		t.Errorf("%+v", r)
	}
	give(approval.Deny)
	if r := tools.Exec(t.Context(), ExecRequest{Command: "printf 3"}); r.Status != StatusDenied || !strings.Contains(r.Text(), `was answered deny by "me"`) {
		t.Errorf("%+v", r)
	}
	say = func(context.Context, approval.Record) (approval.Answer, error) {
		return approval.Answer{}, errors.New("nobody is there")
	}
	r := tools.Exec(t.Context(), ExecRequest{Command: "printf 4"})
	if r.Status != StatusApprovalPending || r.Approval == nil || r.SessionID == "" || r.Failed() {
		t.Fatalf("%+v", r)
	}
	// An approver for a single call wins over the configured one.
	ctx := WithApprover(t.Context(), func(_ context.Context, rec approval.Record) (approval.Answer, error) {
		if rec.ID != r.ApprovalID {
			t.Errorf("asked again: %+v", rec)
		}
		return approval.Answer{Decision: approval.AllowOnce}, nil
	})
	if r := tools.Exec(ctx, ExecRequest{Command: "printf 4"}); r.Status != StatusCompleted || r.Output != "4" {
		t.Errorf("%+v", r)
	}
	// A call that is cancelled while a person is asked runs nothing.
	ctx, cancel := context.WithCancel(t.Context())
	say = func(ctx context.Context, _ approval.Record) (approval.Answer, error) {
		cancel()
		<-ctx.Done()
		return approval.Answer{}, ctx.Err()
	}
	if r := tools.Exec(ctx, ExecRequest{Command: "printf 5"}); r.Status != StatusFailed || r.Reason != ReasonCancelled {
		t.Errorf("%+v", r)
	}
	if list := desk.List(approval.Filter{State: approval.Allowed}); len(list) != 0 {
		t.Errorf("approvals are left: %+v", list)
	}
}
