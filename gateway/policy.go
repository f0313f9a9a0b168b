package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A Policy answers what commands may do, and takes what people say about it.
type Policy interface {
	// Explain says what would become of a command. Nothing is started.
	Explain(ctx context.Context, agent string, cmd corral.Command, o ExplainOptions) (api.Report, error)

	// Would says what becomes of a command for this machine now, and what by changed
	// rules. ErrUnsupported: no rule decides on it.
	Would(ctx context.Context, agent string, cmd corral.Command, change func([]policy.Rule) []policy.Rule) (now, then policy.Outcome, err error)

	// Current returns records with the decisions of those that are pending as they
	// are now.
	Current(ctx context.Context, recs []approval.Record) []approval.Record

	// Overrides are what /exec set for an agent.
	Overrides(agent string) config.Overrides
	SetOverrides(agent string, to config.Overrides) error
	// CheckSender says why a sender may not set them; nil if that is allowed.
	CheckSender(config.Sender) error
	// Say does what a text such as "/exec ask=always" says, for a sender who
	// was found to be authorised, and returns what to show.
	Say(ctx context.Context, agent, text, bot, by string) (string, error)
}

// ExplainOptions say what to report beside the decision.
type ExplainOptions struct {
	Environment bool // where the variables and the entries of PATH are from
	Values      bool // the values of variables too
}

var errNoPolicy = corral.Errorf(errors.ErrUnsupported, "", "this gateway has no policy")

// onPolicy is a handler of requests about what an agent's commands may do.
func (s *Server) onPolicy(h func(w http.ResponseWriter, r *http.Request, agent string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, err := s.agent(r)
		if err != nil {
			return err
		}
		if s.cfg.Policy == nil {
			return errNoPolicy
		}
		return h(w, r, a.Name())
	}
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request, agent string) error {
	if s.draining() { // the next gateway may come to another answer, and is the one that starts the command
		return errStopping
	}
	var req api.Explain
	if err := readJSON(w, r, &req); err != nil {
		return err
	}
	cmd, err := req.Decode()
	if err != nil {
		return err
	}
	report, err := s.cfg.Policy.Explain(r.Context(), agent, cmd, ExplainOptions{Environment: req.Environment, Values: req.Values})
	return answerJSON(w, report, err)
}

func (s *Server) getOverrides(w http.ResponseWriter, r *http.Request, agent string) error {
	return writeJSON(w, http.StatusOK, s.cfg.Policy.Overrides(agent))
}

func (s *Server) putOverrides(w http.ResponseWriter, r *http.Request, agent string) error {
	if _, err := s.authorised(r, nil); err != nil {
		return err
	}
	var given config.Overrides
	if err := readJSON(w, r, &given); err != nil {
		return err
	}
	// The words are those of /exec, and so are the checks.
	to, _, err := config.Overrides{}.Apply(given.String())
	if err != nil {
		return err
	}
	if err := s.cfg.Policy.SetOverrides(agent, to); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.cfg.Policy.Overrides(agent))
}

// command does what a message to an agent said.
func (s *Server) command(w http.ResponseWriter, r *http.Request, agent string) error {
	var said api.Said
	if err := readJSON(w, r, &said); err != nil {
		return err
	}
	by, err := s.authorised(r, said.Sender)
	if err != nil {
		return err
	}
	text, err := s.cfg.Policy.Say(r.Context(), agent, said.Text, said.Bot, by)
	return answerJSON(w, api.Reply{Text: text}, err)
}

// widens is Widens for a request.
func (s *Server) widens(r *http.Request, what string) error {
	return Widens(r.Context(), s.cfg.Policy, what)
}

// Widens says why who calls may not change what is allowed from now on. Only the
// operator and the senders that are configured may, as with overrides. With its token
// a platform may run commands by the policy there is, and pass on that a person
// allowed one once. The policy may be nil.
func Widens(ctx context.Context, p Policy, what string) error {
	if g := access.From(ctx); operator(ctx) || g.ID != "" && g.Role.Has(access.Approve) {
		return nil
	}
	if p != nil && p.CheckSender(config.CallerFrom(ctx).Sender) == nil {
		return nil
	}
	return corral.Errorf(corral.ErrDenied, "use the Unix socket, as corral approvals does on the gateway's machine, or name a sender of commands.allowFrom; allow-once needs neither",
		"%s is for the operator, and a token is not enough", what)
}

// operator reports whether a request is the operator's: it came by the Unix socket, or
// from a browser that was signed in by a link from there, and names no other sender.
func operator(ctx context.Context) bool {
	return access.From(ctx) == access.Everything && config.CallerFrom(ctx).Sender == (config.Sender{})
}

// authorised says who may tell an agent what to do: the operator, whose request came
// by the Unix socket and names no other sender, and the senders that are configured.
func (s *Server) authorised(r *http.Request, said *config.Sender) (by string, err error) {
	sender := config.CallerFrom(r.Context()).Sender
	switch {
	case said != nil:
		sender = *said
	case operator(r.Context()):
		return "operator", nil
	}
	return sender.String(), s.cfg.Policy.CheckSender(sender)
}
