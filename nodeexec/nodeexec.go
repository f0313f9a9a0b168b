// Package nodeexec is host node: commands on paired remote machines.
//
// A node is a machine that dialled in and was approved by an operator. It runs
// commands under its own policy, with the same supervisor as the other hosts,
// so a process on a node is a corral.Process like any other.
//
// The package gives the Router its [corral.Nodes]: Select finds the executor
// of one node, by id, name, address or an unambiguous prefix of its id, and
// Attach finds a process on whichever node has it. It does not decide whether
// a command may go to a node (corral.Resolve does), nor what the node allows.
//
// No node can be paired with this version yet: so far the package holds [None],
// for a gateway to which nothing is paired.
package nodeexec

import (
	"context"

	"github.com/corral-exec/corral"
)

// None is the Nodes of a gateway without nodes.
type None struct{}

var _ corral.Nodes = None{}

// Select returns ErrUnavailable: nothing ran.
func (None) Select(_ context.Context, name string) (corral.Executor, string, error) {
	const hint = "no node can be paired with this version of Corral yet; use host sandbox or gateway"
	if name != "" {
		return nil, "", corral.Errorf(corral.ErrUnavailable, hint, "cannot use node %q: no node is paired", name)
	}
	return nil, "", corral.Errorf(corral.ErrUnavailable, hint, "no node is paired")
}

// Attach returns ErrNotFound.
func (None) Attach(_ context.Context, id string) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrNotFound, "", "no node is paired that could know a process %s", id)
}
