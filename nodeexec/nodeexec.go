// Package nodeexec is host node: commands on paired remote machines.
//
// A node is a machine that dialled in and was approved by an operator. It runs
// commands under its own policy, with the same supervisor as the other hosts,
// so a process on a node is a corral.Process like any other: its log, its
// standard input and its exit status are on the node's disk, and are found
// again after a cut, a restart of this program or of the node's.
//
// The package gives the Router its [corral.Nodes]: Select finds the executor
// of one node, by id, name, address or an unambiguous prefix of its id, and
// Attach finds a process on whichever node has it. It does not decide whether
// a command may go to a node (corral.Resolve does), nor what the node allows.
//
// # Pools
//
// A name that begins with "pool:" stands for all nodes with a label: "pool:gpu"
// for those with the label pool=gpu, "pool:zone=eu" for those with zone=eu. Of
// those that can be used, Select draws two and takes the one that is less busy;
// its executor is a [corral.OneOfMany], so that a Router goes on to another if
// nothing can have been started on the first. All that Select can answer is in
// docs/reference/nodes-selection.md.
//
// # When a node is away
//
// What was asked and not answered is asked again, by itself, wherever that is
// safe: as soon as the node is back, and now and then. A call gives up when
// its context ends, or when nothing has been heard of the node for
// [Config].Patience:
//
//   - Start is ErrUnavailable if the request cannot have arrived, and ErrLost
//     if it may have: Attach tells, when the node is back.
//   - Wait does not give up; only its context ends it. A node that is away has
//     not lost anything.
//   - Reading, and whatever has the same effect twice, is ErrUnavailable.
//   - Write, and signals that do not have the same effect twice, are ErrLost if
//     it is not known whether they arrived. Write says how much surely did.
//
// # When a node lies
//
// It can lie about its own commands and nothing else: what it says about what
// another node was asked, about what nobody asked, beyond what it was granted, or
// in a form that is none, is refused and logged, a few lines a second. What it
// calls itself names nothing. What it says unasked is bounded for each node, and
// the rest dropped, with one line a minute: 20 hellos a second, and 1000 messages
// for readers and calls that are over. What is waited for is not limited.
//
// [Fabric] is the Nodes of a gateway that listens for nodes; [None] that of any
// other.
package nodeexec

import (
	"context"

	"github.com/corral-exec/corral"
)

// None is the Nodes of a gateway that does not listen for nodes.
type None struct{}

var _ corral.Nodes = None{}

const noneHint = "to pair one, start the gateway with --nodes ADDRESS:PORT (see corral nodes --help), or use host sandbox or gateway"

// Select returns ErrUnavailable: nothing ran.
func (None) Select(_ context.Context, name string) (corral.Executor, string, error) {
	if name != "" {
		return nil, "", corral.Errorf(corral.ErrUnavailable, noneHint, "cannot use node %q: no node is paired", name)
	}
	return nil, "", corral.Errorf(corral.ErrUnavailable, noneHint, "no node is paired")
}

// Attach returns ErrNotFound.
func (None) Attach(_ context.Context, id string) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrNotFound, "", "no node is paired that could know a process %s", id)
}
