// Package nodeexec is host node: commands on paired remote machines.
//
// A node is a machine that dialled in and was approved by an operator. It runs
// commands under its own policy, with the same supervisor as the other hosts,
// so a process on a node is a corral.Process like any other: its log, its
// standard input and its exit status are on the node's disk, and are found
// again after a cut, a restart of this program or of the node's.
//
// The package gives the Router its [corral.Nodes]: Select finds the executor of one
// node, by id, name, address or an unambiguous prefix of its id, and Attach finds a
// process on the node that has it. It does not decide whether a command may go to a
// node (corral.Resolve does), nor what the node allows.
//
// # Pools
//
// A name that begins with "pool:" stands for all nodes with a label: "pool:gpu" for
// those with the label pool=gpu, "pool:zone=eu" for those with zone=eu. Select draws
// two of the usable nodes and takes the less busy one. Its executor is a
// [corral.OneOfMany], so a Router tries another node if surely nothing was started on
// the first. All results of Select are listed in docs/reference/nodes-selection.md.
//
// # When a node is away
//
// Unanswered requests are repeated, wherever that is safe: as soon as the node is back,
// and now and then. A call gives up when its context ends, or when the node has been
// silent for [Config].Patience:
//
//   - Start is ErrUnavailable if the request cannot have arrived, and ErrLost
//     if it may have: Attach tells, when the node is back.
//
//   - Wait does not give up; only its context ends it. A node that is away has
//     not lost anything.
//
//   - Reading, and every operation that has the same effect twice, is ErrUnavailable.
//
//   - Write, and signals with another effect the second time, are ErrLost if it is
//     unknown whether they arrived. Write returns how much surely did.
//
// # When a node lies
//
// It can lie about its own commands and nothing else. The gateway refuses and logs, a
// few lines a second, all messages about requests to another node, about requests never
// made, beyond the granted size, or in a wrong form. A node cannot choose its name by
// its own claims. Unrequested messages of each node are bounded: 20 hellos a second,
// and 1000 messages for readers and calls that are over. The rest is dropped, with one
// log line a minute. Awaited messages are not limited.
//
// [Fabric] is the Nodes of a gateway that listens for nodes; [None] is for all other
// gateways.
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
