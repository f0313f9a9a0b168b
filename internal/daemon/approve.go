package daemon

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/runshell"
)

// approvalWait is how long a call waits for an answer. It is less than
// the minute after which many clients give a call up.
const approvalWait = 50 * time.Second

// An approver asks at the desk about what coreTools leave to a person's
// decision. It is asked about beside what the policy asks: an answer here lets
// nothing past that.
type approver struct {
	agentTools
	route corral.Route
	dir   string
}

// approve is a runshell.Approver.
func (a approver) approve(ctx context.Context, r runshell.Request) (runshell.Answer, error) {
	desk := a.s.hosts.policies.desk
	// The shell's name is that of no shell, so that the policy, which looks for
	// what was allowed already, never takes one of these for its own.
	req := policy.Request{Command: r.Input.Command, Shell: []string{runshell.Name}, Dir: path.Join(a.dir, filepath.ToSlash(r.Input.Directory))}
	d := policy.Decision{
		Outcome: policy.Asked, Reason: r.Reason, Fallback: policy.Denied,
		Fix:      []string{"add it to tools.runShellCommand.coreTools"},
		Segments: []policy.Segment{{Text: r.Input.Command, Offset: 0, Refused: "coreTools of " + runshell.Name + " are in the configuration"}},
	}
	var view policy.View = policy.OS{}
	if a.route.Sandboxed {
		view = elsewhere{}
	}
	binding, err := approval.Bind(req, d, nil, view)
	if err != nil {
		return "", err
	}
	claim := approval.Claim{CommandID: corral.NewID(), Agent: a.agent, Host: a.route.Host, Binding: binding}
	for _, rec := range desk.List(approval.Filter{Agent: a.agent, SessionKey: runshell.Name, State: approval.Allowed}) {
		if desk.Own(rec) && rec.Binding.Digest() == binding.Digest() { // since it was asked for
			return a.use(ctx, rec, claim)
		}
	}
	rec, err := desk.Ask(ctx, approval.Request{
		Agent: a.agent, Host: a.route.Host, SessionKey: runshell.Name, Command: req, Description: r.Input.About(), Decision: d, Binding: binding,
	})
	if err != nil {
		return "", err
	}
	if ask := tool.ApproverOf(ctx); ask != nil { // the caller can be asked
		var answer runshell.Answer
		settled, err := a.s.hosts.policies.guard.Await(ctx, rec, ask, func(rec approval.Record) (err error) {
			answer, err = a.use(ctx, rec, claim)
			return err
		})
		switch {
		case answer != "" || ctx.Err() != nil:
			return answer, err
		case err == nil:
			return a.use(ctx, settled, claim) // which says what became of it
		}
		a.s.log.Info("nobody could be asked for an approval at once", "approval", rec.ID, "error", err)
	}
	wait, cancel := context.WithTimeout(ctx, a.s.approvalWait)
	defer cancel()
	defer context.AfterFunc(a.s.stopping, cancel)()
	settled, err := desk.Wait(wait, rec.ID)
	switch {
	case err == nil:
		return a.use(ctx, settled, claim)
	case ctx.Err() == nil && wait.Err() != nil:
		return "", corral.Errorf(corral.ErrApproval, "call again when it is allowed: corral approvals allow "+rec.Slug,
			"approval %s is pending: %s", rec.Slug, r.Reason)
	}
	return "", err
}

func (a approver) use(ctx context.Context, rec approval.Record, claim approval.Claim) (runshell.Answer, error) {
	if rec.State != approval.Allowed {
		return "", corral.Errorf(corral.ErrDenied, "do something else, or ask what is wrong with it", "%s", rec.Settled())
	}
	if _, err := a.s.hosts.policies.desk.Consume(ctx, rec.ID, claim); err != nil {
		return "", err
	}
	return runshell.AllowOnce, nil
}

// askedStarts starts an agent's commands. Where the policy asks, and the caller can
// be asked, the caller waits for the answer.
type askedStarts struct {
	corral.Executor
	guard *guard.Guard
}

func (s askedStarts) Start(ctx context.Context, cmd corral.Command) (p corral.Process, err error) {
	p, err = s.Executor.Start(ctx, cmd)
	pending, ok := approval.AsPending(err)
	ask := tool.ApproverOf(ctx)
	if !ok || ask == nil {
		return p, err
	}
	began := false
	start := func(rec approval.Record) error {
		began = true
		cmd = rec.Apply(cmd)
		p, err = s.Executor.Start(ctx, cmd)
		return err
	}
	rec, awaitErr := s.guard.Await(ctx, pending.Record, ask, start)
	switch {
	case began:
		return p, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case awaitErr != nil: // it can still be allowed, and then runs in the background
		return nil, pending
	case rec.State == approval.Denied:
		return nil, corral.Errorf(corral.ErrDenied, "", "exec denied: %s", rec.Settled())
	}
	err = start(rec) // which says what became of it
	return p, err
}

// elsewhere is a file system that is not seen from here: every directory is
// there, and none is another.
type elsewhere struct{ policy.Nothing }

func (elsewhere) Stat(string) (fs.FileInfo, error)     { return os.Stat("/") }
func (elsewhere) RealPath(path string) (string, error) { return path, nil }
