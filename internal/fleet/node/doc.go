// Package node is the life of a node: it connects a machine to a gateway, asks
// to be one of its nodes (package join), and serves commands to it (package
// fabric) until it is told to end. What runs them is any corral.Executor.
//
// # State
//
// A [State] is a directory, 0700, which one program at a time has open:
//
//	lock          who has it open
//	key.seed      the machine's nkey, 0600: a machine that has it is this node
//	gateway.json  the gateway, and whether the machine is its node, 0600
//	running.json  what a running program says of itself, for [Look]
//
// The key is made once and is what the machine is known by: a machine that asks
// again, whatever happened meanwhile, is the node that it was. Files are replaced
// in one step. One that others can use, or that does not say what it should, is
// refused, and nothing is made in its place.
//
// The gateway is known by its own key, which is in the [join.Line]. A line with
// the same key and another address or certificate takes the place of the old
// one. One with another key is refused while the machine is a node of the first,
// unless that is what is wanted ([State.Use]).
//
// # The life
//
// [Run] connects, and connects again for as long as it lives: after a fraction of a
// second, and then every two seconds. With each connection it asks whether it
// is (still) a node:
//
//   - Approved: it serves. A connection on which it was not a node yet is made
//     anew, since the message server gives out permissions at its beginning.
//   - Pending: it waits for an operator, who sees the same code. A machine that
//     served until then was revoked: it stops serving at once. What runs on it
//     goes on, and is found again if it is approved again.
//   - Rejected: Run ends with [ErrRejected].
//
// A machine that was a node when it was asked last serves without waiting for the
// answer, so that a restart costs no round trip. Each command is signed by the
// gateway's key, and a node that was revoked has no permission to hear of one.
//
// Until the machine is a node for the first time, a mistake ends Run with an
// error: a certificate that is not the one of the line, a setup token that does
// not count. Afterwards it is logged, and tried again. A message server that
// does not let the key in yet is waited for in any case.
//
// What this package does not do: it decides about no command. That is up to the
// executor that it is given.
package node
