package reach

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Sandboxes are the sandboxes of a running gateway.
type Sandboxes struct{ *client.Client }

var _ gateway.Sandboxes = Sandboxes{}

func (g Sandboxes) List(ctx context.Context) ([]api.Sandbox, error) { return g.Client.Sandboxes(ctx) }
func (g Sandboxes) Get(ctx context.Context, name string) (api.Sandbox, error) {
	return g.Client.Sandbox(ctx, name)
}
func (g Sandboxes) Remove(ctx context.Context, name string) error {
	return g.Client.RemoveSandbox(ctx, name)
}
func (g Sandboxes) Pause(ctx context.Context, name string) error {
	return g.PauseSandbox(ctx, name)
}

func (g Sandboxes) Resume(ctx context.Context, name string) error {
	return g.ResumeSandbox(ctx, name)
}

func (g Sandboxes) Recreate(ctx context.Context, name string) (api.Recreated, error) {
	return g.Client.RecreateSandbox(ctx, name)
}
func (g Sandboxes) Stats(ctx context.Context, name string) (api.SandboxStats, error) {
	return g.Client.SandboxStats(ctx, name)
}
func (g Sandboxes) Log(ctx context.Context, name string, all bool) (api.SandboxLog, error) {
	return g.Client.SandboxLog(ctx, name, all)
}

// A RuleKeeper keeps the rules of the approvals file: a client of the gateway, or
// FileRules.
type RuleKeeper interface {
	Rules(ctx context.Context, agent string) (client.Rules, error)
	AddRule(ctx context.Context, agent string, r policy.Rule) error
	RemoveRule(ctx context.Context, agent, ref string) (int, error)
}

// FileRules are the rules of a file of this machine.
type FileRules struct{ *approval.File }

func (f FileRules) Rules(_ context.Context, agent string) (client.Rules, error) {
	host, err := f.File.Rules(agent)
	return client.Rules{File: f.Path(), Rules: host.Rules, Warnings: host.Warnings}, err
}

func (f FileRules) AddRule(_ context.Context, agent string, r policy.Rule) error {
	return f.Add(agent, "", r)
}

func (f FileRules) RemoveRule(_ context.Context, agent, ref string) (int, error) {
	return approval.RemoveRule(f.File, agent, ref)
}

// NodeDesk returns the desk of the node in a directory. Answers go by mail.
func NodeDesk(dir string) Mailed {
	return Mailed{approval.Mail{Dir: filepath.Join(dir, daemon.DeskDir)}}
}

// Mailed is a desk that is answered by mail.
type Mailed struct{ approval.Mail }

func (m Mailed) Approvals(_ context.Context, f approval.Filter) ([]approval.Record, error) {
	return m.List(f)
}

func (m Mailed) Approval(_ context.Context, ref string) (approval.Record, error) {
	return m.get(ref)
}

// get finds an approval of this machine, which corral approvals does not list.
func (m Mailed) get(ref string) (approval.Record, error) {
	rec, err := m.Get("", ref)
	if errors.Is(err, corral.ErrNotFound) {
		err = corral.Errorf(corral.ErrNotFound, "see which there are: corral node approvals ls --all", "%w", err)
	}
	return rec, err
}

func (m Mailed) Answer(ctx context.Context, ref string, answer approval.Answer) (approval.Record, error) {
	rec, err := m.get(ref)
	if err != nil {
		return rec, err
	}
	return m.Mail.Answer(ctx, rec.ID, answer)
}

// WatchApprovals calls use with the pending approvals, and with each change after that.
func WatchApprovals(ctx context.Context, c *client.Client, agent string, use func(approval.Record) error) error {
	after := int64(0)
	for rec, err := range c.ApprovalChanges(ctx, client.ApprovalOptions{Agent: agent, Once: true}) {
		if err != nil {
			return err
		}
		after = rec.Seq
		if rec.State == approval.Pending {
			if err := use(rec); err != nil {
				return err
			}
		}
	}
	for rec, err := range c.ApprovalChanges(ctx, client.ApprovalOptions{After: after, Agent: agent}) {
		if err == nil {
			err = use(rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
