package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Approvals are those of all agents. An approval.Desk has these methods.
type Approvals interface {
	List(approval.Filter) []approval.Record
	Get(agent, ref string) (approval.Record, error)
	Answer(ctx context.Context, id string, a approval.Answer) (approval.Record, error)
	Changes(ctx context.Context, after int64) (changed []approval.Record, next int64, err error)
}

// Rules are those that approvals are remembered in. An approval.File has these
// methods.
type Rules interface {
	Path() string
	Rules(agent string) (approval.Host, error)
	Add(agent string, scope approval.Scope, rules ...policy.Rule) error
	Remove(agent string, action policy.Action, ref string) (removed int, err error)
}

var (
	errNoApprovals = corral.Errorf(corral.ErrNotFound, "", "this gateway has no approvals")
	errNoRules     = corral.Errorf(corral.ErrNotFound, "", "this gateway has no file of approvals")
)

// approvals and rules are handlers of a gateway that has some.
func (s *Server) approvals(h handler) handler {
	return having(s.cfg.Approvals != nil, errNoApprovals, h)
}
func (s *Server) rules(h handler) handler { return having(s.cfg.Rules != nil, errNoRules, h) }

var states = []approval.State{approval.Pending, approval.Allowed, approval.Consumed, approval.Denied, approval.Expired}

func (s *Server) listApprovals(w http.ResponseWriter, r *http.Request) error {
	f := approval.Filter{Agent: agentQuery(r), State: approval.State(r.URL.Query().Get("state"))}
	if f.State != "" && !slices.Contains(states, f.State) {
		return badQuery("state", string(f.State), "use pending, allowed, consumed, denied or expired")
	}
	list := s.current(r, seen(r, s.cfg.Approvals.List(f))...)
	for i := range list {
		list[i] = list[i].Shown()
	}
	return writeJSON(w, http.StatusOK, api.Approvals[approval.Record]{Approvals: list})
}

// seen are those of the agents that the caller's key is for.
func seen(r *http.Request, recs []approval.Record) []approval.Record {
	g := access.From(r.Context())
	return slices.DeleteFunc(recs, func(rec approval.Record) bool { return !g.Sees(rec.Agent) })
}

// approval is the one that a request is about.
func (s *Server) approval(r *http.Request) (approval.Record, error) {
	ref := r.PathValue("id")
	rec, err := s.cfg.Approvals.Get("", ref)
	g := access.From(r.Context())
	if g.All() {
		return rec, err
	}
	// What begins an id may begin those of others, too.
	if err != nil || !g.Sees(rec.Agent) || ref != rec.ID && ref != rec.Slug {
		return approval.Record{}, corral.Errorf(corral.ErrNotFound, "use the full id; see which are pending: GET /v1/approvals", "unknown or expired approval id %.80q", ref)
	}
	return rec, nil
}

// agentQuery is the agent whose approvals are asked for; empty: all agents'. They are for
// operators, and not for the agent of the header.
func agentQuery(r *http.Request) string {
	if agent := r.URL.Query().Get("agent"); agent != api.AllAgents {
		return agent
	}
	return ""
}

func (s *Server) getApproval(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.approval(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.current(r, rec)[0].Shown())
}

// current is records as they are decided on now.
func (s *Server) current(r *http.Request, recs ...approval.Record) []approval.Record {
	if s.cfg.Policy == nil {
		return recs
	}
	return s.cfg.Policy.Current(r.Context(), recs)
}

// answerApproval gives an answer, with any alias of a decision. It goes on when its
// client does not.
func (s *Server) answerApproval(w http.ResponseWriter, r *http.Request, a approval.Answer) (err error) {
	if a.Decision, err = approval.ParseVerdict(string(a.Decision)); err != nil {
		return err
	}
	if a.Scope != "" {
		if a.Scope, err = approval.ParseScope(string(a.Scope)); err != nil {
			return err
		}
	}
	if a.Decision == approval.AllowAlways {
		if err := s.widens(r, "to allow always"); err != nil {
			return err
		}
	}
	rec, err := s.approval(r)
	if err != nil {
		return err
	}
	rec, err = s.cfg.Approvals.Answer(context.WithoutCancel(r.Context()), rec.ID, a)
	return answerJSON(w, rec.Shown(), err)
}

// denyApprovals denies all that is pending. It goes on when its client does not.
func (s *Server) denyApprovals(w http.ResponseWriter, r *http.Request, req api.DenyAll) error {
	switch verdict, err := approval.ParseVerdict(req.Decision); {
	case err != nil:
		return err
	case verdict != approval.Deny:
		return corral.Errorf(corral.ErrInvalid, "answer each by its id", "all at once can only be denied")
	}
	pending := seen(r, s.cfg.Approvals.List(approval.Filter{Agent: req.Agent, State: approval.Pending}))
	denied, err := approval.DenyAll(context.WithoutCancel(r.Context()), pending, req.By, s.cfg.Approvals.Answer)
	if err != nil {
		return err
	}
	for i := range denied {
		denied[i] = denied[i].Shown()
	}
	return writeJSON(w, http.StatusOK, api.Approvals[approval.Record]{Approvals: denied})
}

// approvalChanges sends approvals as they change, as server-sent events. The id
// of one is the number of the change.
func (s *Server) approvalChanges(w http.ResponseWriter, r *http.Request) error {
	after, once, err := streamQuery(r)
	if err != nil {
		return err
	}
	if after < 0 {
		now, cancel := context.WithCancel(r.Context())
		cancel() // there is nothing to wait for
		_, after, _ = s.cfg.Approvals.Changes(now, after)
	}
	agent, g := agentQuery(r), access.From(r.Context())
	return s.stream(w, r, after, once, func(ctx context.Context, after int64) (text string, next int64, err error) {
		changed, next, err := s.cfg.Approvals.Changes(ctx, after)
		for _, rec := range changed {
			if agent != "" && rec.Agent != agent || !g.Sees(rec.Agent) {
				continue
			}
			data, err := json.Marshal(rec.Shown())
			if err != nil {
				return "", after, fmt.Errorf("%w: cannot encode an approval: %w", api.ErrInternal, err)
			}
			text += fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", rec.Seq, api.EventApproval, data)
		}
		return text, next, err
	})
}

func (s *Server) listRules(w http.ResponseWriter, r *http.Request) error {
	agent := cmp.Or(r.URL.Query().Get("agent"), mainAgent)
	if err := access.From(r.Context()).CheckAgent(agent); err != nil {
		return err
	}
	host, err := s.cfg.Rules.Rules(agent)
	if err != nil {
		return err
	}
	list := api.Rules[policy.Rule]{File: s.cfg.Rules.Path(), Agent: agent, Rules: []policy.Rule{}, Warnings: []string{}}
	list.Rules, list.Warnings = append(list.Rules, host.Rules...), append(list.Warnings, host.Warnings...)
	return writeJSON(w, http.StatusOK, list)
}

// mainAgent is the agent of rules when none is named.
const mainAgent = "main"

func (s *Server) addRule(w http.ResponseWriter, r *http.Request, req api.NewRule) error {
	if err := s.widens(r, "to add a rule"); err != nil {
		return err
	}
	if err := access.From(r.Context()).CheckAgent(cmp.Or(req.Agent, mainAgent)); err != nil {
		return err
	}
	return noContent(w, s.cfg.Rules.Add(cmp.Or(req.Agent, mainAgent), "", newRule(req)))
}

// newRule is the rule that a caller wants.
func newRule(req api.NewRule) policy.Rule {
	return policy.Rule{Action: policy.Action(cmp.Or(req.Action, string(policy.Allow))), Pattern: req.Pattern, Args: req.Args, Reason: req.Reason}
}

func (s *Server) removeRule(w http.ResponseWriter, r *http.Request) error {
	if err := s.widens(r, "to remove a rule"); err != nil {
		return err
	}
	q := r.URL.Query()
	agent, ref := cmp.Or(q.Get("agent"), mainAgent), q.Get("ref")
	if err := access.From(r.Context()).CheckAgent(agent); err != nil {
		return err
	}
	removed, err := approval.RemoveRule(s.cfg.Rules, agent, ref)
	return answerJSON(w, api.Removed{Removed: removed}, err)
}
