package corral

import "cmp"

// A RouteRequest is everything that decides where a command goes. Whether the caller
// may be Elevated is checked by the code that sets it; here it is a fact.
type RouteRequest struct {
	Configured Host `json:"configured,omitempty"` // tools.exec.host; empty: none
	Requested  Host `json:"requested,omitempty"`  // the call's; empty: none
	Elevated   bool `json:"elevated,omitempty"`   // the call asks to leave the sandbox

	Sandbox         SandboxState `json:"sandbox"`
	SandboxRequired bool         `json:"sandboxRequired,omitempty"` // sandbox.required

	BoundNode string `json:"boundNode,omitempty"` // tools.exec.node; empty: none
	Node      string `json:"node,omitempty"`      // the call's, goes before BoundNode
}

// SandboxState is whether commands can be sandboxed. Empty means SandboxOff,
// which is also the default of the configuration.
type SandboxState string

const (
	SandboxOff         SandboxState = "off"         // turned off by sandbox.mode
	SandboxOn          SandboxState = "on"          // turned on, and not known to fail
	SandboxUnreachable SandboxState = "unreachable" // turned on, and no engine answers
)

// A Route says where a command goes, and why.
type Route struct {
	Host Host `json:"host,omitempty"` // where it really runs; empty if it may not run
	// Node is the node asked for, if Host is HostNode. Empty: the only one
	// that is paired.
	Node      string `json:"node,omitempty"`
	Sandboxed bool   `json:"sandboxed"` // in a container of ours
	// Guarded: the host's policy and approvals apply. The sandbox is its
	// own boundary, and with the sandbox off nothing is asked either.
	Guarded bool        `json:"guarded"`
	Reason  RouteReason `json:"reason"`
	Notice  string      `json:"notice,omitempty"` // for Info.Notice
}

// RouteReason is why a command goes where it goes, or may not. The set is
// closed.
type RouteReason string

const (
	RouteDefault    RouteReason = "default"     // no host is configured or requested
	RouteConfigured RouteReason = "configured"  // by tools.exec.host
	RouteRequested  RouteReason = "requested"   // by the call
	RouteElevated   RouteReason = "elevated"    // the call may leave the sandbox
	RouteSandboxOff RouteReason = "sandbox-off" // meant for the sandbox, which is off

	// With an error:
	RouteInvalid            RouteReason = "invalid"             // the request makes no sense
	RouteNotAllowed         RouteReason = "not-allowed"         // the host requested is not the one configured
	RouteSandboxRequired    RouteReason = "sandbox-required"    // the sandbox is off and must not be
	RouteSandboxUnreachable RouteReason = "sandbox-unreachable" // the sandbox is on and no engine answers
)

const (
	sandboxOffNotice = "the sandbox is off: no container, no approval"
	unreachableHint  = "start the container engine and try again; corral doctor says what is wrong"
)

// Resolve decides where a command goes. It is a pure function: the Router calls it, and
// so does all code that explains the Router. The table in docs/reference/routing.md is
// its whole specification. With an error, only the Route's Reason is set.
func Resolve(q RouteRequest) (Route, error) {
	if err := q.validate(); err != nil {
		return Route{Reason: RouteInvalid}, err
	}
	route, err := q.resolve()
	if err == nil && q.Node != "" && route.Host != HostNode {
		// A caller who names a machine never wants the command to run on another one.
		return Route{Reason: RouteInvalid}, Errorf(ErrInvalid, "set host=node, or leave node out",
			"node %q is named, but the command goes to host %s", q.Node, route.Host)
	}
	return route, err
}

func (q RouteRequest) validate() error {
	if _, err := ParseHost(string(q.Configured)); err != nil {
		return err
	}
	if _, err := ParseHost(string(q.Requested)); err != nil {
		return err
	}
	switch q.Sandbox {
	case "", SandboxOff, SandboxOn, SandboxUnreachable:
		return nil
	}
	return Errorf(ErrInvalid, "use off, on or unreachable", "unknown state %q of the sandbox", q.Sandbox)
}

func (q RouteRequest) resolve() (Route, error) {
	hasSandbox := q.Sandbox == SandboxOn || q.Sandbox == SandboxUnreachable
	elevated := q.Elevated && hasSandbox // with the sandbox off, elevated has no effect

	host, reason := HostSandbox, RouteDefault
	switch {
	case q.Configured != "":
		host, reason = q.Configured, RouteConfigured
	case q.Requested != "":
		host, reason = q.Requested, RouteRequested
	}

	// Elevated only leads out of the sandbox. It does not lift a binding to a node.
	if elevated && (q.Configured == "" || q.Configured == HostSandbox) && q.Requested != HostNode {
		return Route{Host: HostGateway, Guarded: true, Reason: RouteElevated}, nil
	}
	if q.Requested != "" && q.Requested != host {
		return q.notAllowed("leave host out")
	}
	if q.Configured == "" && host == HostGateway && hasSandbox {
		return q.notAllowed("ask for elevated")
	}

	switch host {
	case HostGateway:
		return Route{Host: HostGateway, Guarded: true, Reason: reason}, nil
	case HostNode:
		return Route{Host: HostNode, Node: cmp.Or(q.Node, q.BoundNode), Guarded: true, Reason: reason}, nil
	}
	switch {
	case q.Sandbox == SandboxOn:
		return Route{Host: HostSandbox, Sandboxed: true, Reason: reason}, nil
	case q.Sandbox == SandboxUnreachable:
		return Route{Reason: RouteSandboxUnreachable}, Errorf(ErrUnavailable, unreachableHint,
			"the sandbox is on, but no container engine answers")
	case q.SandboxRequired:
		return Route{Reason: RouteSandboxRequired}, Errorf(ErrDenied,
			"turn it on with sandbox.mode=all, or set sandbox.required=false to run without one",
			"a sandbox is required, and the sandbox is off")
	}
	return Route{Host: HostGateway, Reason: RouteSandboxOff, Notice: sandboxOffNotice}, nil
}

func (q RouteRequest) notAllowed(otherwise string) (Route, error) {
	return Route{Reason: RouteNotAllowed}, Errorf(ErrDenied,
		"set tools.exec.host="+string(q.Requested)+", or "+otherwise,
		"host not allowed (requested %s; configured host is %s)", q.Requested, cmp.Or(q.Configured, "unset"))
}
