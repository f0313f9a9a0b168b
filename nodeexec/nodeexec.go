// Package nodeexec is host node: commands on paired remote machines.
//
// A node is a machine that dialled in (corral node) and was approved by an
// operator (corral nodes approve). It runs commands under its own policy, with
// the same supervisor as the other hosts, so a process on a node is a
// corral.Process like any other.
//
// The package gives the Router its [corral.Nodes]: Select finds the executor
// of one node, by id, name, address or an unambiguous prefix of its id, and
// Attach finds a process on whichever node has it. It does not decide whether
// a command may go to a node (corral.Resolve does), nor what the node allows.
//
// So far it holds [None], for a gateway to which nothing is paired.
package nodeexec

import (
	"context"

	"github.com/corral-exec/corral"
)

// None is the Nodes of a gateway without nodes.
type None struct{}

var _ corral.Nodes = None{}

// Select returns ErrUnavailable: a node may be paired later.
func (None) Select(_ context.Context, name string) (corral.Executor, string, error) {
	const hint = "run corral node --gateway ADDRESS on the machine to pair, then corral nodes approve here"
	if name != "" {
		return nil, "", corral.Errorf(corral.ErrUnavailable, hint, "cannot use node %q: no node is paired", name)
	}
	return nil, "", corral.Errorf(corral.ErrUnavailable, hint, "no node is paired")
}

// Attach returns ErrNotFound.
func (None) Attach(_ context.Context, id string) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrNotFound, "", "no node is paired that could know a process %s", id)
}
