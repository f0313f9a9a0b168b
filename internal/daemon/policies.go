package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/session"
)

// What a gateway's policy keeps, in the state directory.
const (
	ApprovalsFile = "exec-approvals.json"
	DeskDir       = "approvals"
	overridesFile = "overrides.json"
)

// A planner says how a command would run on this machine, as
// hostexec.Executor does.
type planner interface {
	Plan(context.Context, corral.Command) (pathenv.Plan, error)
}

// policies are what stands before the commands of a gateway's agents.
type policies struct {
	live  *config.Live
	file  *approval.File
	desk  *approval.Desk
	guard *guard.Guard
	over  *guard.Overrides // nil on a node

	log    *slog.Logger
	owned  sync.WaitGroup
	cancel context.CancelFunc
}

// A sharing says where approvals are kept that other gateways have as well, and
// what this gateway is called among them. The store is nil if there are no others.
type sharing func(*config.Config) (_ approval.Store, gateway string, err error)

// openPolicies opens what the policy is made of, and the desk. Commands on this
// machine run as on says; those for nodes are decided on there.
func openPolicies(o *Options, stateDir string, on Executor, nodes guard.Nodes, shared sharing) (_ *policies, err error) {
	log := o.Log
	p, err := policyFiles(o, stateDir)
	if err != nil {
		return nil, err
	}
	if err := p.over.Mend(); err != nil {
		log.Error("the session overrides were damaged", "error", err, "hint", corral.Hint(err))
	}
	store, name, err := shared(p.live.Config())
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.desk, err = approval.OpenDesk(approval.Options{
		Dir: filepath.Join(stateDir, DeskDir), Store: store, Gateway: name, Expiry: p.expiry, Log: log,
		Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
			if rec.Host == corral.HostNode {
				return nil // the node does, when it is told of it with the command
			}
			return p.file.Add(rec.Agent, rec.Scope, rules...)
		},
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.decide(on, nodes)
	return p, nil
}

// policyFiles reads what the policy is made of. Nothing is changed by it.
func policyFiles(o *Options, stateDir string) (_ *policies, err error) {
	p := &policies{log: o.Log}
	if p.live, err = o.liveConfig(); err != nil {
		return nil, err
	}
	p.file = p.approvals(stateDir, o.Log)
	if p.over, err = guard.OpenOverrides(filepath.Join(stateDir, overridesFile)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// approvals is the file of approvals that the configuration names, which it can do
// anew at any time. While it cannot be understood it is the one before.
func (p *policies) approvals(stateDir string, log *slog.Logger) *approval.File {
	var mu sync.Mutex
	last := ApprovalsPath(p.live.Config(), stateDir)
	return approval.FollowFile(func() string {
		mu.Lock()
		defer mu.Unlock()
		if c := p.live.Config(); c.Err == nil {
			last = ApprovalsPath(c, stateDir)
		}
		return last
	}, log)
}

// expiry is how long an approval can be given.
func (p *policies) expiry() time.Duration { return p.live.Config().Approvals.ExpirySeconds.Value }

// decide makes the guard.
func (p *policies) decide(on Executor, nodes guard.Nodes) {
	plan := planned
	if on, ok := on.(planner); ok {
		plan = on.Plan
	}
	p.guard = guard.New(guard.Config{
		Settings: p.live.Config, File: p.file, Desk: p.desk, Plan: plan, Nodes: nodes, Overrides: p.over, Home: AccountHome(), Log: p.log,
		Caller: func(ctx context.Context) string { return access.From(ctx).Ref() },
	})
}

// planned is for what cannot say how it would run a command.
func planned(_ context.Context, cmd corral.Command) (pathenv.Plan, error) {
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{"/bin/sh", "-c", cmd.Shell}
	}
	return pathenv.Plan{Args: args, Dir: cmd.Dir, Env: pathenv.Environment{Vars: []string{"PATH=" + pathenv.DefaultPath("linux")}}}, nil
}

// agent is what the configuration says of an agent now, with what /exec set.
func (p *policies) agent(name string) config.Agent {
	c := p.live.Config().Agent(name)
	if p.over == nil { // on a node
		return c
	}
	return c.With(p.over.Get(name))
}

// serve does what follows from the answers to approvals, until close.
func (p *policies) serve(sessions *session.Manager, keys *access.Store) {
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.owned.Go(func() { p.guard.Serve(ctx, released{p, sessions, keys}) })
}

// stop ends serve.
func (p *policies) stop() {
	if p.cancel != nil {
		p.cancel()
	}
	p.owned.Wait()
}

func (p *policies) close() error {
	p.stop()
	var errs []error
	if p.desk != nil {
		errs = append(errs, p.desk.Close())
	}
	if p.file != nil {
		errs = append(errs, p.file.Close())
	}
	return errors.Join(errs...)
}

// released runs what was approved as sessions of its agent.
type released struct {
	*policies
	sessions *session.Manager
	keys     *access.Store
}

// Run implements guard.Handler. The key that asked for the command bounds it, as if it
// had run at once.
func (r released) Run(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	if n, _ := rec.Noted(); n.Caller != "" {
		g := r.keys.Grant(n.Caller)
		if g == access.Nothing {
			return corral.Errorf(corral.ErrDenied, "ask for it with a key that is valid", "the key that asked for it has ended")
		}
		ctx = access.WithGrant(ctx, g)
	}
	exec := r.agent(rec.Agent).Tools.Exec
	_, err := r.sessions.Agent(rec.Agent).Begin(letThrough(ctx), session.Options{
		Command: cmd, Background: true, Keep: true,
		NotifyOnExit: exec.NotifyOnExit.Value, RunningNotice: exec.ApprovalRunningNoticeMs.Value,
	})
	return err
}

// Resume implements guard.Handler. A session that is not in the table has ended
// and was removed.
func (r released) Resume(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	if _, err := r.sessions.Agent(rec.Agent).Session(cmd.ID); err != nil {
		return nil
	}
	return r.Run(ctx, rec, cmd)
}

// Denied implements guard.Handler.
func (r released) Denied(_ context.Context, rec approval.Record, why string, attended bool) error {
	about := "approval " + rec.Slug
	if said, ok := strings.CutPrefix(why, about+" "); ok { // it is about that
		about += " " + said
	} else {
		about += ", " + why
	}
	return r.sessions.Announce(session.Event{
		Type: session.EventDenied, Agent: rec.Agent, SessionID: rec.StartID(), Approval: rec.ID, Name: session.Name(rec.Text()),
		Outcome: session.Outcome{State: session.Failed}, Wake: !attended,
		Text: fmt.Sprintf("Exec denied (%s): %s", about, rec.Text()),
	})
}

// answers are the approvals as clients answer them.
type answers struct{ *approval.Desk }

// sessionLimit is how long an answer waits for the session of the command that it allows.
const sessionLimit = time.Second

// Answer is that of the Desk. A command that it allows has its session by then, for the
// client to find, unless that takes longer than sessionLimit.
func (a answers) Answer(ctx context.Context, id string, given approval.Answer) (approval.Record, error) {
	rec, err := a.Desk.Answer(ctx, id, given)
	if err == nil && rec.State == approval.Allowed && rec.StartID() != "" {
		wait, cancel := context.WithTimeout(ctx, sessionLimit)
		defer cancel()
		_, _ = a.WaitWhile(wait, id, approval.Allowed) // a session begins before its approval is used
	}
	return rec, err
}

// ApprovalsPath is where the file of approvals is that goes with a state
// directory.
func ApprovalsPath(c *config.Config, stateDir string) string {
	if set := c.Approvals.File.Value; set != "" {
		return config.ExpandHome(set, AccountHome())
	}
	return filepath.Join(stateDir, ApprovalsFile)
}

// ClosedHint is what to do about a configuration that cannot be used any more.
func ClosedHint(err error) string {
	if bad := (*config.Error)(nil); errors.As(err, &bad) {
		return "corral config validate says what is wrong with it"
	}
	return corral.Hint(err)
}
