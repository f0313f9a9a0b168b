package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/recent"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/nodeexec/sshexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/tool/patch"
)

// hosts are what the commands of a gateway's agents run on: this machine for
// all of them, and sandboxes by their scopes.
type hosts struct {
	opt      *Options
	stateDir string
	elevated bool // calls may leave the sandbox
	log      *slog.Logger
	gateway  Executor
	ssh      *sshexec.Hosts
	nodes    corral.Nodes // those too
	policies *policies
	// pathPrepend of the flags goes before the configuration's, and timeout is how
	// long a command may run whose call does not say.
	pathPrepend []string
	timeout     func(config.Agent) time.Duration
	began       *config.Config // as it was when they were opened; nil: what it is now counts

	agents *recent.Map[*agentHosts]

	mu    sync.Mutex
	boxes map[string]*lazySandbox // by name
	e2b   *e2b.Store              // those of E2B's clients; nil: there are none
	warm  WarmPool                // nil while none is wanted
	// warmE2B is the same for clients of E2B.
	warmE2B WarmPool
	quotas  quotas
}

// agentHosts are those of one agent.
type agentHosts struct {
	hosts *hosts
	name  string

	mu     sync.Mutex
	router *corral.Router
	routes routing // that router goes by
}

// routing is what a router is made of that the configuration says.
type routing struct {
	host     corral.Host
	node     string
	on       bool
	required bool
}

// HostDir is where the supervisor of this machine's commands keeps what it has,
// in the state directory.
const HostDir = "host"

// sshDir is where the logs of commands on SSH hosts are, in the state directory.
const sshDir = "ssh"

// openHosts opens what commands run on, and the policy before it.
func openHosts(o *Options, stateDir string, elevated bool, shared sharing) (*hosts, error) {
	log := o.Log
	gw, err := o.Backends.Host(KeeperOptions{
		HostOptions: HostOptions{Workspace: o.Settings.Workspace.Dir, Environ: o.Environ},
		StateDir:    filepath.Join(stateDir, HostDir), Log: log,
	})
	if err != nil {
		return nil, err
	}
	h := newHosts(o, stateDir, gw)
	h.elevated = elevated
	if h.ssh, err = sshexec.New(sshexec.Config{
		StateDir: filepath.Join(stateDir, sshDir), Allowed: func() []string { return h.policies.live.Config().Nodes.SSH.Value },
		Home: AccountHome(), AgentSocket: o.getenv("SSH_AUTH_SOCK"), Log: log,
	}); err != nil {
		return nil, errors.Join(err, gw.Close())
	}
	h.nodes = sshexec.Nodes{SSH: h.ssh, Others: nodeexec.None{}}
	if h.policies, err = openPolicies(o, stateDir, gw, askedNodes{h}, shared); err != nil {
		return nil, errors.Join(err, h.ssh.Close(), gw.Close())
	}
	h.began = h.policies.live.Config()
	return h, nil
}

// use has commands for nodes that are no SSH hosts go to these. It is called
// before anything is started.
func (h *hosts) use(nodes corral.Nodes) {
	h.nodes = sshexec.Nodes{SSH: h.ssh, Others: nodes}
}

// askedNodes are the nodes as the guard asks them; those that are there only
// when the gateway listens for them.
type askedNodes struct{ hosts *hosts }

// Decide implements guard.Nodes.
func (n askedNodes) Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error) {
	nodes, ok := n.hosts.nodes.(guard.Nodes)
	if !ok {
		_, name, err = n.hosts.nodes.Select(ctx, node)
		return "", name, nil, cmp.Or(err, errors.ErrUnsupported)
	}
	return nodes.Decide(ctx, node, agent, cmd)
}

// recentAgents is for how many agents what commands run on is kept: clients make up names.
const recentAgents = 4096

// newHosts are those of a state directory, in which no command has run yet.
func newHosts(o *Options, stateDir string, gateway Executor) *hosts {
	return &hosts{
		opt: o, stateDir: stateDir, log: o.Log, gateway: gateway,
		agents: recent.New[*agentHosts](recentAgents), boxes: map[string]*lazySandbox{},
	}
}

// of returns an agent's.
func (h *hosts) of(agent string) *agentHosts {
	a, ok := h.agents.Get(agent)
	if !ok {
		a = &agentHosts{hosts: h, name: agent}
		h.agents.Put(agent, a)
	}
	return a
}

// current is the router by what the configuration says now. A new one finds
// what the old one started.
func (a *agentHosts) current() (*corral.Router, config.Agent) {
	c := a.hosts.policies.agent(a.name)
	s := a.hosts.opt.SettingsOf(c)
	want := routing{node: c.Tools.Exec.Node.Value, on: s.Mode != ModeOff, required: s.Required || s.Mode == ModeRequired}
	if set := c.Tools.Exec.Host; set.Source.Name != SourceDefault {
		want.host = set.Value
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.router == nil || a.routes != want {
		a.routes = want
		a.router = corral.NewRouter(corral.RouterOptions{
			Host: want.host, Node: want.node, SandboxOn: want.on, SandboxRequired: want.required,
			Gateway: a.hosts.gateway, Sandbox: scoped{a}, Nodes: a.hosts.nodes,
			Guard: a.hosts.policies.guard.For(a.name),
		})
	}
	return a.router, c
}

// executor is session.Config.Executor.
func (h *hosts) executor(_ context.Context, agent string) (corral.Executor, error) {
	return h.of(agent), nil
}

// kept is session.Config.Kept.
func (h *hosts) kept() (map[string]string, error) {
	all, err := sandbox.Agents(h.stateDir)
	onHost, herr := hostexec.Agents(filepath.Join(h.stateDir, HostDir))
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, onHost)
	return all, errors.Join(err, herr)
}

// Close lets go of everything; commands go on.
func (h *hosts) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, l := range h.boxes {
		errs = append(errs, l.Close())
	}
	for _, warm := range []WarmPool{h.warm, h.warmE2B} {
		if warm != nil {
			errs = append(errs, warm.Close())
		}
	}
	if h.ssh != nil { // corral explain starts nothing
		errs = append(errs, h.ssh.Close())
	}
	return errors.Join(append(errs, h.policies.close(), h.gateway.Close())...)
}

// letThroughKey marks the context of a command that was asked about: its sender
// passed the gates of elevated then, and is not there any more.
type letThroughKey struct{}

func letThrough(ctx context.Context) context.Context {
	return context.WithValue(ctx, letThroughKey{}, true)
}

// Route says where a command would go.
func (a *agentHosts) Route(ctx context.Context, cmd corral.Command) (corral.Route, error) {
	router, c := a.current()
	return a.route(ctx, router, c, cmd)
}

// route is where a command goes by the configuration c.
func (a *agentHosts) route(ctx context.Context, router *corral.Router, c config.Agent, cmd corral.Command) (corral.Route, error) {
	if c.Err != nil {
		return corral.Route{}, unusable(c)
	}
	route, err := router.Route(cmd)
	if err != nil {
		return route, err
	}
	box, err := a.hosts.e2bBox(a.name, config.CallerFrom(ctx).Session)
	if err != nil {
		return route, err
	}
	if box.Paused {
		return route, corral.Errorf(corral.ErrUnavailable, "corral sandbox resume "+box.ID, "the sandbox %s is paused", box.ID)
	}
	f := fence{required: box.ID != "" || a.hosts.opt.SettingsOf(c).Mode == ModeRequired, elevated: a.hosts.elevated}
	if route.Reason == corral.RouteElevated && !f.elevated && ctx.Value(letThroughKey{}) == nil {
		if err := c.Tools.Elevated.Check(config.CallerFrom(ctx).Sender); err != nil {
			return route, err
		}
	}
	if err := access.From(ctx).CheckHost(route.Host); err != nil && ctx.Value(letThroughKey{}) == nil {
		return route, err
	}
	f.elevated = true // what may not was refused
	return route, f.check(route)
}

// Start starts a command that may go where it would go.
func (a *agentHosts) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	router, c := a.current()
	route, err := a.route(ctx, router, c, cmd)
	if err != nil {
		return nil, err
	}
	ctx = corral.WithAgent(ctx, a.name)
	ctx = pathenv.WithRules(ctx, guard.EnvRules(c.Tools.Exec))
	if cmd, err = a.placed(ctx, c, cmd, route); err != nil {
		return nil, err
	}
	p, err := router.Start(ctx, cmd)
	if err == nil {
		a.hosts.policies.guard.Began(a.name, cmd.ID)
	}
	return p, err
}

// placed is a command with what the configuration says of PATH before what the
// call says, and with its working directory in the agent's workspace, if that is
// configured, where it goes to this machine: all agents share that.
func (a *agentHosts) placed(ctx context.Context, c config.Agent, cmd corral.Command, route corral.Route) (corral.Command, error) {
	if _, path := cmd.Env["PATH"]; path || route.Host != corral.HostNode { // whose PATH is not known here
		first, err := PathFirst(c.Tools.Exec)
		if err != nil {
			return cmd, err
		}
		cmd.PathPrepend = slices.Concat(a.hosts.pathPrepend, first, cmd.PathPrepend)
	}
	dir := a.hosts.opt.SettingsOf(c).Workspace.Dir
	if route.Host == corral.HostGateway && dir != "" && !filepath.IsAbs(cmd.Dir) {
		cmd.Dir = filepath.Join(dir, cmd.Dir)
	}
	if route.Host == corral.HostNode && cmd.Elevated && ctx.Value(letThroughKey{}) == nil && !a.hosts.elevated {
		// Who may not leave a sandbox here is not to leave that of a node either.
		cmd.Elevated = c.Tools.Elevated.Check(config.CallerFrom(ctx).Sender) == nil
	}
	if route.Host == corral.HostNode && cmd.Approval != "" {
		// What was approved for a node runs there, and not on another one of
		// its pool.
		rec, err := a.hosts.policies.desk.Get(a.name, cmd.Approval)
		if err == nil && rec.Binding.Node != "" && (route.Node == "" || strings.HasPrefix(route.Node, "pool:")) {
			cmd.Node = rec.Binding.Node
		}
	}
	return cmd, nil
}

// PathFirst are the directories that the configuration puts before PATH.
func PathFirst(c config.Exec) ([]string, error) {
	return pathenv.PrependDirs(c.PathPrepend.Value, AccountHome())
}

// Attach finds a process, whatever the configuration says.
func (a *agentHosts) Attach(ctx context.Context, id string) (corral.Process, error) {
	router, _ := a.current()
	return router.Attach(ctx, id)
}

// A fence keeps commands in the sandbox.
type fence struct{ required, elevated bool }

func (f fence) check(route corral.Route) error {
	switch {
	case f.required && !route.Sandboxed:
		return corral.Errorf(corral.ErrDenied, "leave out host and elevated",
			"the gateway requires a sandbox, and the command would run on host %s", route.Host)
	case route.Reason == corral.RouteElevated && !f.elevated:
		return corral.Errorf(corral.ErrDenied, "leave out elevated, or start the gateway with --allow-elevated",
			"the gateway lets no command leave the sandbox")
	}
	return nil
}

// A lazySandbox is opened when it is needed. One that was never used has no
// process to attach to, so that a question needs no engine.
// Each command goes by the options of its time.
type lazySandbox struct {
	stateDir, name string
	owner          string // the agent whose it is; empty: all agents'
	options        func() SandboxOptions
	open           func(SandboxOptions) (Executor, error)

	retired atomic.Bool         // it is closed and forgotten, and next has its place
	next    func() *lazySandbox // of the same name

	mu     sync.Mutex
	ex     Executor
	by     Settings  // that ex goes by
	got    time.Time // when it was asked for last
	closed bool

	patches *patch.Commands // of its workspace, if that is not on this machine
}

// commands are how patches get to a workspace that is not on this machine.
func (l *lazySandbox) commands() *patch.Commands {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.patches == nil {
		l.patches = patch.NewCommands(l, path.Clean(sandbox.Workdir))
	}
	return l.patches
}

func (l *lazySandbox) get() (Executor, error) {
	o := l.options()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, corral.Errorf(corral.ErrUnavailable, "try again when it is back", "the gateway is stopping")
	case l.retired.Load():
		return l.next().get()
	}
	l.got = time.Now()
	if l.ex != nil {
		return l.ex, l.follow(o)
	}
	ex, err := l.open(o)
	if err != nil {
		if !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrDir) {
			err = corral.Errorf(corral.ErrUnavailable, cmp.Or(corral.Hint(err), "corral doctor says what is wrong"), "cannot use the sandbox: %w", err)
		}
		return nil, err
	}
	l.ex, l.by = ex, o.Settings
	return ex, nil
}

// follow has the sandbox go by other settings, if they are others.
func (l *lazySandbox) follow(o SandboxOptions) error {
	c, ok := l.ex.(configurable)
	if !ok || reflect.DeepEqual(o.Settings, l.by) {
		return nil
	}
	if err := c.ConfigureSandbox(o); err != nil {
		return err
	}
	l.by = o.Settings
	return nil
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
	l.mu.Lock()
	ex := Executor(nil)
	if !l.closed && l.ex != nil {
		ex, l.got = l.ex, time.Now()
	}
	l.mu.Unlock()
	if ex == nil {
		var err error
		if ex, err = l.get(); err != nil {
			return nil, err
		}
	}
	return ex.Attach(ctx, id)
}

func (l *lazySandbox) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ex != nil {
		return true
	}
	_, err := os.Stat(filepath.Join(l.stateDir, "sandboxes", l.name))
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

// KeeperOptions say how to run commands that outlive this process.
type KeeperOptions struct {
	HostOptions
	StateDir string
	Node     pathenv.NodeKind // empty: commands of this machine are a gateway's own
	Log      *slog.Logger
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

// openKeeper opens this machine under a warden of its own.
func openKeeper(o KeeperOptions) (Executor, error) {
	o.Environ = withoutTerminal(o.Environ)
	probe := pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: o.Environ, Home: AccountHome()})
	ex, err := hostexec.Open(hostexec.Config{
		StateDir: o.StateDir, Workspace: o.Workspace, Node: o.Node, Environ: o.Environ, LoginProbe: probe, Log: o.Log,
		TakeOver: sweepTempDirs(),
	})
	if err != nil {
		return nil, err
	}
	// The shell is asked now, so that the first command need not wait for it.
	asked, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = probe.PATH(asked)
	return ex, nil
}

// sandboxOf is a sandbox of an agent, by the settings of now.
func (h *hosts) sandboxOf(agent, name string) (Executor, error) {
	if c := h.policies.agent(agent); c.Err != nil {
		return nil, unusable(c)
	}
	boxes, err := h.boxesOf(agent)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(boxes, func(l *lazySandbox) bool { return l.name == name })
	if i < 0 {
		var names []string
		for _, l := range boxes {
			names = append(names, l.name)
		}
		return nil, corral.Errorf(corral.ErrNotFound, sandbox.WhichHint(name, names)+"; one of another agent needs its name (--agent)", "the agent %s has no sandbox %.80q", agent, name)
	}
	return boxes[i].get()
}

// files are those of a sandbox of an agent.
func (h *hosts) files(ctx context.Context, agent, name string) (files.FS, error) {
	ex, err := h.sandboxOf(agent, name)
	if err != nil {
		return nil, err
	}
	return FilesOf(ctx, ex, name)
}

// FilesOf are the files of a sandbox, if they can be reached.
func FilesOf(ctx context.Context, ex Executor, name string) (files.FS, error) {
	has, ok := ex.(interface {
		Files(context.Context) (files.FS, error)
	})
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "", "the files of the sandbox %s cannot be reached", name)
	}
	return has.Files(ctx)
}

// dialPort connects to a port of a sandbox of an agent.
func (h *hosts) dialPort(ctx context.Context, agent, name string, port int) (net.Conn, error) {
	ex, err := h.sandboxOf(agent, name)
	if err != nil {
		return nil, err
	}
	return dialIn(ctx, ex, "sandbox "+name, port)
}

// dialNode connects to a port of a node, if the agent may have commands run there.
func (h *hosts) dialNode(ctx context.Context, agent, node string, port int) (net.Conn, error) {
	route, err := h.of(agent).Route(ctx, corral.Command{Shell: "true", Host: corral.HostNode, Node: node})
	if err != nil {
		return nil, err
	}
	if err := h.policies.guard.CheckPorts(agent); err != nil {
		return nil, err
	}
	ex, name, err := h.nodes.Select(ctx, route.Node)
	if err != nil {
		return nil, err
	}
	return dialIn(corral.WithAgent(ctx, agent), ex, "node "+name, port)
}

// dialIn connects to a port in a place, which has a name for people.
func dialIn(ctx context.Context, ex corral.Executor, name string, port int) (net.Conn, error) {
	dials, ok := ex.(interface {
		DialPort(ctx context.Context, port int) (net.Conn, error)
	})
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "", "the ports of the %s cannot be reached", name)
	}
	return dials.DialPort(ctx, port)
}
