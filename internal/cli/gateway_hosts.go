package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/pathenv"
)

// hosts are what the commands of a gateway's agents run on: this machine for
// all of them, and a sandbox for each.
type hosts struct {
	app      *app
	stateDir string
	elevated bool // calls may leave the sandbox
	log      *slog.Logger
	gateway  executor

	mu     sync.Mutex
	agents map[string]*agentHosts
}

// agentHosts are those of one agent.
type agentHosts struct {
	*corral.Router
	guard   guard
	sandbox *lazySandbox
}

// hostDir is where the supervisor of this machine's commands keeps what it has,
// in the state directory.
const hostDir = "host"

func (a *app) openHosts(stateDir string, elevated bool, log *slog.Logger) (*hosts, error) {
	gw, err := a.backends.keeper(keeperOptions{
		gatewayOptions: gatewayOptions{workspace: a.settings.Workspace, environ: a.environ},
		stateDir:       filepath.Join(stateDir, hostDir), log: log,
	})
	if err != nil {
		return nil, err
	}
	return &hosts{app: a, stateDir: stateDir, elevated: elevated, log: log, gateway: gw, agents: map[string]*agentHosts{}}, nil
}

// of returns an agent's.
func (h *hosts) of(agent string) *agentHosts {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.agents[agent]
	if a == nil {
		a = h.newAgent(agent)
		h.agents[agent] = a
	}
	return a
}

func (h *hosts) newAgent(agent string) *agentHosts {
	settings := h.app.settings
	settings.Name = sandboxName(agent)
	box := &lazySandbox{
		dir: filepath.Join(h.stateDir, "sandboxes", settings.Name),
		open: func() (executor, error) {
			h.log.Info("opening a sandbox", "agent", agent, "name", settings.Name)
			return h.app.backends.sandbox(sandboxOptions{settings: settings, stateDir: h.stateDir, progress: &progressLog{log: h.log}, log: h.log})
		},
	}
	router := corral.NewRouter(corral.RouterOptions{
		SandboxOn: settings.Mode != modeOff, SandboxRequired: settings.Mode == modeRequired,
		Gateway: h.gateway, Sandbox: box, Nodes: nodeexec.None{},
	})
	return &agentHosts{Router: router, guard: guard{required: settings.Mode == modeRequired, elevated: h.elevated}, sandbox: box}
}

// executor is session.Config.Executor.
func (h *hosts) executor(_ context.Context, agent string) (corral.Executor, error) {
	return h.of(agent), nil
}

// Close lets go of everything; commands go on.
func (h *hosts) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, a := range h.agents {
		errs = append(errs, a.sandbox.Close())
	}
	return errors.Join(append(errs, h.gateway.Close())...)
}

// Route says where a command would go, as tool.Config wants it.
func (a *agentHosts) Route(cmd corral.Command) (corral.Route, error) {
	route, err := a.Router.Route(cmd)
	if err == nil {
		err = a.guard.check(route)
	}
	return route, err
}

// Start starts a command that may go where it would go.
func (a *agentHosts) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if route, err := a.Router.Route(cmd); err == nil {
		if err := a.guard.check(route); err != nil {
			return nil, err
		}
	}
	return a.Router.Start(ctx, cmd)
}

// A guard keeps commands in the sandbox.
type guard struct{ required, elevated bool }

func (g guard) check(route corral.Route) error {
	switch {
	case g.required && !route.Sandboxed:
		return corral.Errorf(corral.ErrDenied, "leave out host and elevated",
			"the gateway requires a sandbox, and the command would run on host %s", route.Host)
	case route.Reason == corral.RouteElevated && !g.elevated:
		return corral.Errorf(corral.ErrDenied, "leave out elevated, or start the gateway with --allow-elevated",
			"the gateway lets no command leave the sandbox")
	}
	return nil
}

// sandboxNames are those that package sandbox takes.
var sandboxNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// sandboxName is the name of an agent's sandbox: the agent's, or where that is
// none for a sandbox, one that no other agent has.
func sandboxName(agent string) string {
	if sandboxNames.MatchString(agent) {
		return agent
	}
	sum := sha256.Sum256([]byte(agent))
	return "agent-" + hex.EncodeToString(sum[:13])
}

// A lazySandbox is opened when it is needed. One that was never used has no
// process to attach to, so that nobody has to have an engine for a question.
type lazySandbox struct {
	dir  string // where it keeps what it has, once it was used
	open func() (executor, error)

	mu     sync.Mutex
	ex     executor
	closed bool
}

func (l *lazySandbox) get() (executor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, corral.Errorf(corral.ErrUnavailable, "try again when it is back", "the gateway is stopping")
	case l.ex != nil:
		return l.ex, nil
	}
	ex, err := l.open()
	if err != nil {
		if !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrDir) {
			err = corral.Errorf(corral.ErrUnavailable, hintFor(err, "corral doctor says what is wrong"), "cannot use the sandbox: %w", err)
		}
		return nil, err
	}
	l.ex = ex
	return ex, nil
}

func (l *lazySandbox) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	ex, err := l.get()
	if err != nil {
		return nil, err
	}
	return ex.Start(ctx, cmd)
}

func (l *lazySandbox) Attach(ctx context.Context, id string) (corral.Process, error) {
	if !l.used() {
		return nil, corral.Errorf(corral.ErrNotFound, "", "the sandbox was never used, and knows no process %s", id)
	}
	ex, err := l.get()
	if err != nil {
		return nil, err
	}
	return ex.Attach(ctx, id)
}

func (l *lazySandbox) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ex != nil {
		return true
	}
	_, err := os.Stat(l.dir)
	return !errors.Is(err, os.ErrNotExist)
}

func (l *lazySandbox) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.ex == nil {
		return nil
	}
	return l.ex.Close()
}

// keeperOptions say how to run commands that outlive this process.
type keeperOptions struct {
	gatewayOptions
	stateDir string
	log      *slog.Logger
}

// A keeper runs commands on this machine under a warden of its own.
type keeper struct {
	*hostexec.Executor
	probe *pathenv.LoginProbe
}

// ofTerminal are the variables that are about the terminal in which a gateway
// was started. Commands of its sessions have other terminals, or none.
var ofTerminal = []string{"TERM", "TERMCAP", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "LINES", "COLUMNS", "TMUX", "TMUX_PANE", "STY", "WINDOW"}

// withoutTerminal is an environment without them.
func withoutTerminal(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(ofTerminal, name)
	})
}

func openKeeper(o keeperOptions) (executor, error) {
	o.environ = withoutTerminal(o.environ)
	k := &keeper{probe: pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: o.environ, Home: accountHome()})}
	var err error
	k.Executor, err = hostexec.New(hostexec.Config{
		StateDir: o.stateDir, Workspace: o.workspace, Environ: o.environ, LoginPath: k.probe.PATH, Log: o.log,
	})
	if err != nil {
		k.probe.Close()
		return nil, err
	}
	// The shell is asked now, so that the first command need not wait for it.
	asked, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = k.probe.PATH(asked)
	return k, nil
}

func (k *keeper) Close() error {
	err := k.Executor.Close()
	k.probe.Close()
	return err
}
