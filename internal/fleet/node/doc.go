// Package node is the life of a node. It connects a machine to a gateway, asks to
// become one of its nodes (package join), and serves commands to it (package fabric)
// until it is told to end. Any corral.Executor can run the commands.
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
// The key is made once, and identifies the machine: a machine that asks again is the
// same node, whatever happened in between. Files are replaced in one step. A file that
// others can use, or with wrong content, is refused, and not replaced.
//
// The gateway is identified by its own key, which is in the [join.Line]. A line with
// the same key and another address or certificate replaces the old one. A line with
// another key is refused while the machine is a node of the first gateway, unless the
// caller asks for that ([State.Use]).
//
// # The life
//
// [Run] connects, and reconnects as long as it lives: after a fraction of a second, and
// then every two seconds. With each connection it asks whether it is (still) a node:
//
//   - Approved: it serves. A connection on which it was not a node yet is made
//     anew, since the message server gives out permissions at its beginning.
//
//   - Pending: it waits for an operator, who sees the same code. A machine that
//     served until then was revoked: it stops serving at once. Its processes go
//     on, and are found again after another approval.
//
//   - Rejected: Run ends with [ErrRejected].
//
// A machine that was a node at the last answer serves without waiting for the next one,
// so a restart costs no round trip. That is safe: each command is signed by the
// gateway's key, and a revoked node has no permission to receive one.
//
// Until the machine is a node for the first time, a mistake ends Run with an error: a
// certificate that does not match the line, or an invalid setup token. Afterwards it is
// logged, and Run tries again. Run always waits for a message server that does not
// accept the key yet.
//
// This package decides about no command. The executor does that.
package node
