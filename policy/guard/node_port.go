package guard

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// CheckPorts says why an agent may not reach ports of nodes: it may run nothing there.
// On the node, the agent is the gateway's.
func (g *Guard) CheckPorts(agent string) error {
	e, settings, err := g.begin(agent, corral.Command{}, onNode, policy.Source{Name: fromGateway})
	if err != nil {
		return err
	}
	if err := settings.Tools.Check(config.ToolExec); err != nil {
		return err
	}
	host, _ := g.host(&e)
	effective := approval.Effective(e.Requested, host.Settings)
	if set := effective.Security; set.Value == policy.SecurityDeny {
		return corral.Errorf(corral.ErrDenied, "ask for what runs nothing there", "the agent %s may run nothing on nodes, and reach no ports of them: security is deny (%s)", agent, set.Source)
	}
	return nil
}

// DialPort connects to a port on behalf of a gateway's agent: in its sandbox, if its
// commands run in one here, and otherwise on this machine, if node.ports has it.
func (n *Node) DialPort(ctx context.Context, agent string, port int) (net.Conn, error) {
	agent, cmd, err := n.sanitize(agent, corral.Command{Shell: "true"})
	if err != nil {
		return nil, err
	}
	_, route, err := n.place(agent, cmd)
	if err != nil {
		return nil, err
	}
	if !route.Sandboxed {
		err := n.guard.CheckPorts(agent)
		if err == nil {
			err = n.guard.allowedPort(port)
		}
		if err != nil {
			n.refusedPort(agent, port, err)
			return nil, err
		}
	}
	dials, ok := n.host.(interface {
		DialPort(ctx context.Context, agent string, sandboxed bool, port int) (net.Conn, error)
	})
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "", "the ports of this node cannot be reached")
	}
	return dials.DialPort(ctx, agent, route.Sandboxed, port)
}

// allowedPort reports whether gateways may reach a port of this machine.
func (g *Guard) allowedPort(port int) error {
	set := g.cfg.Settings().Node.Ports
	for _, text := range set.Value {
		if from, to, ok := config.PortRange(text); ok && from <= port && port <= to {
			return nil
		}
	}
	set.Source.Key = "" // the message has it
	return corral.Errorf(corral.ErrDenied, `on the node, in its configuration: node: { ports: ["`+strconv.Itoa(port)+`"] }`,
		"the node lets gateways reach no port %d of its own (node.ports: %s)", port, set.Source)
}

func (n *Node) refusedPort(agent string, port int, err error) {
	if n.warns.Allow() {
		n.guard.cfg.Log.Warn("refused a connection of the gateway to a port", "agent", agent, "port", port, "error", err)
	}
}
