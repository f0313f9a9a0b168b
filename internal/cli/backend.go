package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/sandbox"
)

// backends make what commands run on. Tests replace them.
type backends struct {
	gateway func(gatewayOptions) (executor, error)
	keeper  func(keeperOptions) (executor, error)
	sandbox func(sandboxOptions) (executor, error)
	pool    func(sandboxOptions, int) (warmPool, error)
	engine  func(ctx context.Context, choice string) (engine, error)
	engines func(context.Context) []engineTried // nil: not asked
}

func realBackends() backends {
	return backends{gateway: openGateway, keeper: openKeeper, sandbox: openSandbox, pool: openPool, engine: openEngine, engines: tryEngines}
}

// An executor lets go of what it holds with Close.
type executor interface {
	corral.Executor
	io.Closer
}

type gatewayOptions struct {
	rules     pathenv.Rules
	workspace string
	environ   []string
}

type sandboxOptions struct {
	settings
	stateDir string
	progress imageProgress
	pool     *sandbox.Pool // nil: none
	log      *slog.Logger  // nil: nothing is logged
}

// imageProgress shows how it goes with getting an image.
type imageProgress interface {
	show(images.Event)
	finish()
}

// An engine is what corral's commands want of a container engine.
type engine interface {
	Facts(ctx context.Context) (engineFacts, error)
	Images() images.Engine
	// Check is what it does not have; see sandbox.Checker.
	Check(ctx context.Context, s sandbox.Spec) ([]sandbox.Lack, error)
	// Sandboxes are the containers of a state directory.
	Sandboxes(ctx context.Context, stateDir string) ([]sandboxRow, error)
	// Inspect takes the name of a container. sandbox.ErrNoContainer if there is
	// none.
	Inspect(ctx context.Context, container string) (sandbox.Container, error)
	// Stats is what a container uses; see sandbox.StatsEngine.
	Stats(ctx context.Context, container string) (sandbox.Stats, error)
	// RemoveSandbox kills and removes one.
	RemoveSandbox(ctx context.Context, stateDir, name string) error
	// Sweep removes what gateways that are gone left behind.
	Sweep(ctx context.Context, stateDir string) ([]string, error)
	// Prune removes what is old of sandboxes that nobody uses.
	Prune(ctx context.Context, stateDir string, of func(sandbox.Sandbox) sandbox.PruneOptions) ([]string, error)
	Close() error
}

// openRouter returns the Router for one command, with only that host opened to
// which the command goes. A host on the command line is the configured one:
// whoever types it is the operator.
func (a *app) openRouter(ctx context.Context, o *execFlags, cmd corral.Command) (*corral.Router, corral.Host, error) {
	opt := corral.RouterOptions{
		Host:            corral.Host(o.host),
		SandboxOn:       a.settings.Mode != modeOff,
		SandboxRequired: a.settings.Required || a.settings.Mode == modeRequired,
		Nodes:           nodeexec.None{},
	}
	route, err := corral.NewRouter(opt).Route(cmd)
	if err != nil {
		return nil, "", err
	}
	if a.settings.Mode == modeRequired && !route.Sandboxed {
		return nil, "", corral.Errorf(corral.ErrDenied, "leave out --host and --elevated, or set --sandbox all",
			"a sandbox is required, and the command would run on host %s", route.Host)
	}
	if !route.Sandboxed && len(o.sandboxOnly) > 0 {
		return nil, "", o.withoutSandbox(route)
	}
	var ex executor
	switch route.Host {
	case corral.HostGateway:
		if a.without != "" {
			a.warn(a.without)
		}
		if a.settings.Access == "ro" {
			a.warn("On the gateway a command can write to the workspace, whatever --workspace-access says.")
		}
		ex, err = a.backends.gateway(gatewayOptions{rules: guard.EnvRules(a.defaults), workspace: a.settings.Workspace, environ: a.environ})
	case corral.HostSandbox:
		var dir string
		if dir, err = a.stateDir(); err == nil {
			ex, err = a.backends.sandbox(sandboxOptions{settings: a.settings, stateDir: dir, progress: a.progress()})
		}
	}
	if err != nil {
		return nil, "", err
	}
	switch route.Host {
	case corral.HostGateway:
		opt.Gateway = settled{ex}
	case corral.HostSandbox:
		opt.Sandbox = settled{ex}
	}
	return corral.NewRouter(opt), route.Host, nil
}

// withoutSandbox refuses flags that say what a sandbox is like.
func (o *execFlags) withoutSandbox(route corral.Route) error {
	flags := "--" + strings.Join(o.sandboxOnly, ", --")
	if route.Reason == corral.RouteSandboxOff {
		hint := "turn the sandbox on: --sandbox all, or CORRAL_SANDBOX=all"
		if o.host == "" {
			hint = "add --host sandbox, or " + hint
		}
		return corral.Errorf(corral.ErrInvalid, hint, "there is no sandbox for %s: it is off", flags)
	}
	return corral.Errorf(corral.ErrInvalid, "leave that out, or send the command to the sandbox with --host sandbox",
		"there is no sandbox for %s: the command would run on host %s", flags, route.Host)
}

// settled is an executor of which a start that is cancelled in the middle has a
// known outcome: the process is found, and can be stopped, or there is none.
type settled struct{ executor }

func (s settled) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	cmd.ID = cmp.Or(cmd.ID, corral.NewID())
	p, err := s.executor.Start(ctx, cmd)
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

// A lone host is for one command: it lives in this process, and what it has to
// keep it keeps in a directory of its own, which goes with it.
type loneHost struct {
	*hostexec.Executor
	dir   *tempDir
	probe *pathenv.LoginProbe
}

func openGateway(o gatewayOptions) (_ executor, err error) {
	g := &loneHost{}
	running := sweepTempDirs()
	if g.dir, err = newTempDir(); err != nil {
		return nil, err
	}
	g.probe = pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: o.environ, Home: accountHome()})
	g.Executor, err = hostexec.New(hostexec.Config{
		StateDir: g.dir.path, Workspace: o.workspace, InProcess: true, TakeOver: running,
		Environ: o.environ, LoginPath: g.probe.PATH, EnvPath: o.rules.EnvPath, Keep: o.rules.Keep,
	})
	if err != nil {
		g.probe.Close()
		return nil, errors.Join(err, g.dir.Close())
	}
	return g, nil
}

// accountHome is empty where the account has none: the probe then leaves HOME
// as it is.
func accountHome() string {
	home, err := pathenv.AccountHome()
	if err != nil {
		return ""
	}
	return home
}

func (g *loneHost) Close() error {
	err := g.Executor.Close()
	g.probe.Close()
	return errors.Join(err, g.dir.Close())
}
