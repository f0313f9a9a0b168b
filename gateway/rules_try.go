package gateway

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// Bounds of a preview.
const (
	triedCommands = 200
	tryLimit      = 5 * time.Second
)

// tryRule says what a change of the rules would change about the last commands that ran
// on this machine. It is decided anew on each, by what is there now, without the
// variables that its caller set. Nothing is started.
func (s *Server) tryRule(w http.ResponseWriter, r *http.Request, req api.RuleTrial) error {
	if s.cfg.Policy == nil {
		return errNoRules
	}
	agent := cmp.Or(req.Agent, mainAgent)
	if err := access.From(r.Context()).CheckAgent(agent); err != nil && agent != api.AllAgents {
		return err
	}
	change, err := s.changeOfRules(agent, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), tryLimit)
	defer cancel()
	got := api.RuleEffects[policy.Outcome]{Changed: []api.RuleEffect[policy.Outcome]{}}
	for _, st := range s.lastCommands(ctx, agent) {
		if ctx.Err() != nil {
			break // the commands so far are an answer
		}
		now, then, err := s.cfg.Policy.Would(ctx, st.Agent, corral.Command{Shell: st.Command, Dir: st.Dir, Host: corral.HostGateway}, change)
		if err != nil { // such as for a directory that is gone
			continue
		}
		if got.Commands++; now != then {
			got.Changed = append(got.Changed, api.RuleEffect[policy.Outcome]{Agent: st.Agent, SessionID: st.ID, Command: st.Command, Now: now, Then: then})
		}
	}
	return writeJSON(w, http.StatusOK, got)
}

// changeOfRules is what a trial does to the rules that apply to a command.
func (s *Server) changeOfRules(agent string, req api.RuleTrial) (func([]policy.Rule) []policy.Rule, error) {
	if req.Remove == "" {
		rule := newRule(req.NewRule)
		return func(rules []policy.Rule) []policy.Rule { return append(rules, rule) }, approval.CheckRule(rule)
	}
	host, err := s.cfg.Rules.Rules(agent)
	if err != nil {
		return nil, err
	}
	gone := slices.DeleteFunc(slices.Clone(host.Rules), func(r policy.Rule) bool { return !approval.Means(req.Remove, r) })
	if len(gone) == 0 {
		return nil, corral.Errorf(corral.ErrNotFound, "list them: GET /v1/approvals/rules", "agent %.80q has no rule %.80q", agent, req.Remove)
	}
	return func(rules []policy.Rule) []policy.Rule {
		return slices.DeleteFunc(rules, func(r policy.Rule) bool {
			return slices.ContainsFunc(gone, func(g policy.Rule) bool {
				return g.Source == r.Source && g.ID == r.ID && g.Pattern == r.Pattern && g.Action == r.Action
			})
		})
	}, nil
}

// lastCommands are those of an agent ("*": of all that the caller's key is for) that ran
// on this machine, the newest first. A command that is not kept whole is left out.
func (s *Server) lastCommands(ctx context.Context, agent string) []session.Status {
	g, agents := access.From(ctx), []string{agent}
	if agent == api.AllAgents {
		agents = slices.DeleteFunc(s.cfg.Sessions.Agents(), func(a string) bool { return !g.Sees(a) })
	}
	var list []session.Status
	for _, a := range agents {
		list = append(list, s.cfg.Sessions.Agent(a).List(ctx)...)
	}
	list = slices.DeleteFunc(list, func(st session.Status) bool {
		return st.Host != corral.HostGateway || st.Sandboxed || len(st.Command) > session.MaxText
	})
	slices.SortFunc(list, func(a, b session.Status) int { return b.StartedAt.Compare(a.StartedAt) })
	return list[:min(len(list), triedCommands)]
}
