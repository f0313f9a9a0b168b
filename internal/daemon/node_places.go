package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
)

// nodePlaces are what a node's commands go to: this machine and, if its
// configuration says so, a sandbox for each agent of the gateway's. They are the
// hosts of a gateway that has no nodes. The node decides which of them it is: a
// gateway can ask to leave the sandbox (elevated), and no more.
type nodePlaces struct {
	*hosts

	mu      sync.Mutex
	routers map[string]placing // by the agent
}

// A placing is a Router, and what of the configuration it goes by.
type placing struct {
	router *corral.Router
	routes routing
}

var _ guard.Places = (*nodePlaces)(nil)

func newNodePlaces(h *hosts) *nodePlaces {
	return &nodePlaces{hosts: h, routers: map[string]placing{}}
}

// maxSandboxes bounds how many sandboxes gateways can have made on a node.
const maxSandboxes = 256

// Place implements guard.Places.
func (n *nodePlaces) Place(agent string, cmd corral.Command) (*corral.Router, corral.Route, error) {
	c := n.policies.agent(agent)
	if c.Err != nil {
		return nil, corral.Route{}, unusable(c)
	}
	router, mode := n.router(agent, n.opt.SettingsOf(c))
	route, err := router.Route(corral.Command{Elevated: cmd.Elevated})
	if err != nil || route.Reason != corral.RouteElevated {
		return router, route, err
	}
	if mode == ModeRequired {
		return nil, route, corral.Errorf(corral.ErrDenied, "leave out elevated", "the node lets no command leave its sandbox (required)")
	}
	// Which agents use the node is not known here: leaving has to be allowed to all.
	if err := c.Tools.Elevated.Check(config.Sender{}); err != nil {
		return nil, route, corral.Errorf(corral.ErrDenied, `leave out elevated; or set, in the configuration of the node, tools.elevated.allowFrom: ["*"]`,
			"the node keeps commands in its sandbox: %w", err)
	}
	return router, route, nil
}

// router is an agent's by what the configuration says now, and the mode of the
// sandbox. A new one finds what the old one started.
func (n *nodePlaces) router(agent string, s Settings) (*corral.Router, string) {
	want := routing{on: s.Mode != ModeOff, required: s.Required || s.Mode == ModeRequired}
	if !want.on && !want.required {
		want.host = corral.HostGateway // this machine, behind its policy
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.routers[agent]
	if p.router == nil || p.routes != want {
		p = placing{router: corral.NewRouter(corral.RouterOptions{
			Host: want.host, SandboxOn: want.on, SandboxRequired: want.required,
			Gateway: n.gateway, Sandbox: ofAgent{n, agent}, Guard: guard.Decided,
		}), routes: want}
		n.routers[agent] = p
	}
	return p.router, s.Mode
}

// Start is never called: the node starts commands by the Router of Place.
func (n *nodePlaces) Start(context.Context, corral.Command) (corral.Process, error) {
	return nil, corral.Errorf(errors.ErrUnsupported, "", "a node's command has to be an agent's")
}

// Attach implements corral.Executor: it finds a process of any agent.
func (n *nodePlaces) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := n.gateway.Attach(ctx, id)
	if !errors.Is(err, corral.ErrNotFound) {
		return p, err
	}
	boxes, berr := n.boxes()
	if berr != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "see what is wrong with the state directory of the node", "cannot tell which sandboxes the node has: %w", berr)
	}
	for _, l := range boxes {
		if l.knows(id) {
			p, err := l.Attach(ctx, id)
			return owned(p, l.owner), err
		}
	}
	return nil, err
}

// boxes are the sandboxes that there are, also those of earlier lives.
func (n *nodePlaces) boxes() ([]*lazySandbox, error) {
	list, err := sandbox.Sandboxes(n.stateDir)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.Key != "" {
			n.box(s.Name, s.Owner, s.Key)
		}
	}
	n.hosts.mu.Lock()
	defer n.hosts.mu.Unlock()
	return slices.Collect(maps.Values(n.hosts.boxes)), nil
}

// room reports why an agent cannot have another sandbox.
func (n *nodePlaces) room(agent string) error {
	boxes, err := n.boxes()
	if err != nil {
		return err
	}
	name := SandboxName(n.policies.agent(agent).Sandbox.Scope.Value, agent, "")
	if len(boxes) < maxSandboxes || slices.ContainsFunc(boxes, func(l *lazySandbox) bool { return l.name == name }) {
		return nil
	}
	return corral.Errorf(corral.ErrUnavailable, "on the node: corral sandbox rm, for those that are not needed; or set sandbox.scope to shared",
		"the node has %d sandboxes, of at most %d", len(boxes), maxSandboxes)
}

// ofAgent is what an agent's commands go to in sandboxes. Of a session a node is not
// told.
type ofAgent struct {
	places *nodePlaces
	agent  string
}

func (o ofAgent) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := o.places.room(o.agent); err != nil {
		return nil, err
	}
	return scoped{o.places.of(o.agent)}.Start(ctx, cmd)
}

func (o ofAgent) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := scoped{o.places.of(o.agent)}.Attach(ctx, id)
	return owned(p, o.agent), err
}

// owned is a process of an agent: whose it is is known by the sandbox that it is in,
// as what is kept within may have been meddled with.
func owned(p corral.Process, agent string) corral.Process {
	if p == nil || agent == "" { // of a sandbox of all agents that cannot be told
		return p
	}
	own := origin.Origin{Agent: agent}
	if o := origin.Of(p); o != nil {
		own = *o
		own.Agent = agent
	}
	return ofOrigin{p, own}
}

// ofOrigin is a process with the origin that is known here.
type ofOrigin struct {
	corral.Process
	origin origin.Origin
}

func (p ofOrigin) Origin() *origin.Origin { return &p.origin }

// DialPort connects to a port of an agent's sandbox, or of this machine. Whether that may
// be is decided by then.
func (n *nodePlaces) DialPort(ctx context.Context, agent string, sandboxed bool, port int) (net.Conn, error) {
	if sandboxed {
		if err := n.room(agent); err != nil {
			return nil, err
		}
		l := n.of(agent).box(ctx)
		ex, err := l.get()
		if err != nil {
			return nil, err
		}
		return dialIn(ctx, ex, "sandbox "+l.name, port)
	}
	var d net.Dialer
	var err error
	for _, ip := range []string{"127.0.0.1", "::1"} {
		conn, derr := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if derr == nil {
			return conn, nil
		}
		err = cmp.Or(err, derr) // there may be no IPv6
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, corral.Errorf(corral.ErrNotListening, "start what is to listen there; it can listen on 127.0.0.1", "nothing listens on port %d of the node", port)
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "look at what listens there", "cannot connect to port %d of the node: %w", port, err)
}

// Running is how many processes run on this machine, in no sandbox.
func (n *nodePlaces) Running() int {
	if x, ok := n.gateway.(interface{ Running() int }); ok {
		return x.Running()
	}
	return 0
}

// Features says in a hello whether commands run in a sandbox here.
func (n *nodePlaces) Features() []string {
	c := n.policies.agent(session.DefaultAgent)
	if s := n.opt.SettingsOf(c); s.Mode != ModeOff {
		return []string{FeatureSandbox + s.Mode}
	}
	return nil
}

// FeatureSandbox begins the feature by which a node says that its commands run in a
// sandbox; the mode follows.
const FeatureSandbox = "sandbox="

// unusable is why nothing may run.
func unusable(c config.Agent) error {
	return corral.Errorf(corral.ErrDenied, ClosedHint(c.Err),
		"the configuration cannot be used, so that nothing may run: %s", config.FirstLine(c.Err))
}
