package daemon

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/pathenv"
)

// Lone is how a command runs that no gateway runs: by the settings as they are, and
// with only that host opened to which it goes.
type Lone struct {
	Options
	StateDir func() (string, error)
	Host     corral.Host   // as it is configured; see corral.RouterOptions
	Rules    pathenv.Rules // of the environment on this machine
	Progress Progress      // of getting an image
	Check    func(corral.Route) error
}

// loginPathFile has what login shells answered, in a state directory.
const loginPathFile = "login-path.json"

// Open returns the Router for a command, and the host to which it leads.
func (l Lone) Open(cmd corral.Command) (*corral.Router, corral.Host, error) {
	opt := corral.RouterOptions{
		Host: l.Host, SandboxOn: l.Settings.Mode != ModeOff, SandboxRequired: l.Settings.Required || l.Settings.Mode == ModeRequired,
		Nodes: nodeexec.None{},
	}
	route, err := corral.NewRouter(opt).Route(cmd)
	if err == nil {
		err = l.Check(route)
	}
	if err != nil {
		return nil, "", err
	}
	switch route.Host {
	case corral.HostGateway:
		o := HostOptions{Rules: l.Rules, Workspace: l.Settings.Workspace.Dir, Environ: l.Environ}
		if dir, err := l.StateDir(); err == nil { // without one nothing is kept, and nothing else is missing
			o.LoginPath = filepath.Join(dir, loginPathFile)
		}
		ex, err := l.Backends.Lone(o)
		if err != nil {
			return nil, "", err
		}
		opt.Gateway = Settled{ex}
	case corral.HostSandbox:
		dir, err := l.StateDir()
		if err != nil {
			return nil, "", err
		}
		ex, err := l.Backends.Sandbox(SandboxOptions{Settings: l.Settings, StateDir: dir, Progress: l.Progress})
		if err != nil {
			return nil, "", err
		}
		opt.Sandbox = Settled{ex}
	}
	return corral.NewRouter(opt), route.Host, nil
}

// callLimit bounds calls that have no context to cancel.
const callLimit = 5 * time.Second

// Settled finds out what became of a start that was cancelled: it returns the process,
// or the error says that there is none.
type Settled struct{ Executor }

func (s Settled) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	cmd.ID = cmp.Or(cmd.ID, corral.NewID())
	p, err := s.Executor.Start(ctx, cmd)
	if err == nil || !errors.Is(err, corral.ErrLost) || ctx.Err() == nil {
		return p, err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	switch p, aerr := s.Attach(look, cmd.ID); {
	case aerr == nil:
		return p, nil
	case errors.Is(aerr, corral.ErrNotFound):
		return nil, context.Cause(ctx)
	}
	return nil, err
}
