package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// PendingApproval returns the approval that a command waits for, if err is the
// ErrApproval of a Start.
func PendingApproval(err error) (approval.Record, bool) {
	var more interface {
		error
		Details() any
	}
	if !errors.Is(err, corral.ErrApproval) || !errors.As(err, &more) {
		return approval.Record{}, false
	}
	raw, ok := more.Details().(json.RawMessage)
	var rec approval.Record
	return rec, ok && json.Unmarshal(raw, &rec) == nil && rec.ID != ""
}

// Approvals lists those that a filter selects, the oldest first: of all agents,
// unless it names one, since one person answers for all.
func (c *Client) Approvals(ctx context.Context, f approval.Filter) ([]approval.Record, error) {
	req := call{method: http.MethodGet, path: []string{"approvals"}, query: url.Values{}}
	if f.Agent != "" {
		req.query.Set("agent", f.Agent)
	}
	if f.State != "" {
		req.query.Set("state", string(f.State))
	}
	list, err := ask[api.Approvals[approval.Record]](ctx, c, req, nil)
	if err != nil || f.SessionKey == "" {
		return list.Approvals, err
	}
	return slices.DeleteFunc(list.Approvals, func(rec approval.Record) bool { return rec.SessionKey != f.SessionKey }), nil
}

// Approval finds one by its ID, its slug, or a beginning of one of them that no
// other has.
func (c *Client) Approval(ctx context.Context, ref string) (approval.Record, error) {
	return ask[approval.Record](ctx, c, approvalCall(http.MethodGet, ref), nil)
}

// approvalCall keeps a reference from leading elsewhere: those that there are
// have no other characters.
func approvalCall(method, ref string) call {
	req := call{method: method, path: []string{"approvals", ref}, changes: method != http.MethodGet}
	if corral.ValidateID(ref) != nil || ref == "changes" || ref == "rules" {
		req.refused = corral.Errorf(corral.ErrNotFound, "see which are pending: corral approvals ls", "unknown or expired approval id %.80q", ref)
	}
	return req
}

// Answer answers an approval. The first answer counts; any other is an
// ErrConflict that says who answered what. It is repeated if the connection is
// cut: if that one counted, the ErrConflict says so.
func (c *Client) Answer(ctx context.Context, ref string, a approval.Answer) (approval.Record, error) {
	return ask[approval.Record](ctx, c, approvalCall(http.MethodPost, ref), a)
}

// ApprovalOptions say which changes of approvals to follow.
type ApprovalOptions struct {
	// After is the number of the last change that was seen. 0: all that are
	// kept; negative: what changes from now on.
	After int64
	Agent string // empty: of all agents
	// Once: only those that there are now, and then the sequence ends.
	Once bool
}

// ApprovalChanges follows approvals, each as it is with its last change, until
// ctx ends, or the loop over it does. It goes on by itself as Events does.
func (c *Client) ApprovalChanges(ctx context.Context, o ApprovalOptions) iter.Seq2[approval.Record, error] {
	return follow(ctx, c, o.After, o.Once, approvalEvent, func(after int64) call {
		req := call{method: http.MethodGet, path: []string{"approvals", "changes"}, query: url.Values{}}
		if after >= 0 {
			req.query.Set("after", strconv.FormatInt(after, 10))
		}
		if o.Agent != "" {
			req.query.Set("agent", o.Agent)
		}
		if o.Once {
			req.query.Set("once", "true")
		}
		return req
	})
}

func approvalEvent(_ string, data []byte) (rec approval.Record, after int64, err error) {
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, 0, fmt.Errorf("%w: an approval is not understood: %w", api.ErrInternal, err)
	}
	return rec, 0, nil
}

// AwaitApproval waits for the answer to an approval, and gives the one that approve
// returns, unless there is another answer before. Approve may be nil: then the answer
// has to come from elsewhere. An error of approve leaves the approval pending.
func (c *Client) AwaitApproval(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error)) (approval.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type settled struct {
		rec approval.Record
		err error
	}
	answers := make(chan settled, 2)
	asked := 1
	go func() {
		r, err := c.settled(ctx, rec)
		answers <- settled{r, err}
	}()
	if approve != nil {
		asked++
		go func() {
			a, err := approve(ctx, rec)
			now := rec
			if err == nil {
				if now, err = c.Answer(ctx, rec.ID, a); errors.Is(err, corral.ErrConflict) || errors.Is(err, corral.ErrNotFound) { // there was another answer before, or it expired
					now, err = c.Approval(ctx, rec.ID)
				}
			}
			answers <- settled{now, err}
		}()
	}
	first := <-answers
	cancel()
	for range asked - 1 {
		<-answers
	}
	return first.rec, first.err
}

// settled waits until an approval is no longer pending.
func (c *Client) settled(ctx context.Context, rec approval.Record) (approval.Record, error) {
	for now, err := range c.ApprovalChanges(ctx, ApprovalOptions{After: rec.Seq - 1, Agent: rec.Agent}) {
		if err != nil {
			return rec, err
		}
		if now.ID == rec.ID && now.State != approval.Pending {
			return now, nil
		}
	}
	return rec, ctx.Err()
}

// Rules are what a gateway's file of approvals says to an agent.
type Rules = api.Rules[policy.Rule]

// Rules lists the rules of an agent; "*" are those of all.
func (c *Client) Rules(ctx context.Context, agent string) (Rules, error) {
	return ask[Rules](ctx, c, call{method: http.MethodGet, path: []string{"approvals", "rules"}, query: url.Values{"agent": {agent}}}, nil)
}

// AddRule adds a rule of an agent, unless it is there.
func (c *Client) AddRule(ctx context.Context, agent string, r policy.Rule) error {
	return c.json(ctx, call{method: http.MethodPost, path: []string{"approvals", "rules"}, changes: true},
		api.NewRule{Agent: agent, Action: string(r.Action), Pattern: r.Pattern, Args: r.Args, Reason: r.Reason}, nil)
}

// RemoveRule removes an agent's rules with an ID or a pattern, and returns how
// many there were.
func (c *Client) RemoveRule(ctx context.Context, agent, ref string) (int, error) {
	n, err := ask[api.Removed](ctx, c, call{method: http.MethodDelete, path: []string{"approvals", "rules"}, query: url.Values{"agent": {agent}, "ref": {ref}}, changes: true}, nil)
	return n.Removed, err
}

// TryRule says what a rule would change about the last commands that ran on the gateway's
// machine. Nothing is changed.
func (c *Client) TryRule(ctx context.Context, trial api.RuleTrial) (api.RuleEffects[policy.Outcome], error) {
	return ask[api.RuleEffects[policy.Outcome]](ctx, c, call{method: http.MethodPost, path: []string{"approvals", "rules", "preview"}}, trial)
}
