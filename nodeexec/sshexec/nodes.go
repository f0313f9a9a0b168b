package sshexec

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/corral-exec/corral"
)

// Nodes combines SSH hosts, whose names begin with Prefix, with other nodes.
type Nodes struct {
	SSH    *Hosts
	Others corral.Nodes
}

var _ corral.Nodes = Nodes{}

// Select implements corral.Nodes. The others handle an empty name: it never means an
// SSH host.
func (n Nodes) Select(ctx context.Context, name string) (corral.Executor, string, error) {
	if !strings.HasPrefix(name, Prefix) {
		return n.Others.Select(ctx, name)
	}
	x, err := n.SSH.Select(name)
	return x, name, err
}

// Attach implements corral.Nodes.
func (n Nodes) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := n.SSH.Attach(ctx, id)
	if errors.Is(err, corral.ErrNotFound) {
		return n.Others.Attach(ctx, id)
	}
	return p, err
}

// Decide asks one of the others for its decision on a command, if they can be asked
// (see policy/guard). An SSH host has no policy of its own: the error is
// errors.ErrUnsupported.
func (n Nodes) Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error) {
	if strings.HasPrefix(node, Prefix) {
		if _, err := n.SSH.Select(node); err != nil {
			return node, node, nil, err
		}
		return node, node, nil, corral.Errorf(errors.ErrUnsupported, "", "%s has no policy of its own", node)
	}
	others, ok := n.Others.(interface {
		Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error)
	})
	if !ok {
		_, name, err = n.Others.Select(ctx, node)
		return "", name, nil, cmp.Or(err, errors.ErrUnsupported)
	}
	return others.Decide(ctx, node, agent, cmd)
}
