// Package guard stands before the commands of agents that run on a machine
// without a boundary of its own: it puts together what the configuration, the
// host's approvals file and the call say, has package policy decide, and lets
// people approve.
//
// [Guard.For] is what a corral.Router asks. A command that needs an approval is
// a [approval.PendingError], with the record at the desk; when it is allowed,
// [Guard.Serve] has it run, also by a later life of the program. A command that
// may not run is a [policy.DeniedError], with the decision.
//
// # Nodes
//
// What goes to a node is decided on twice. The gateway's guard decides on the
// text: its security, ask and rules that forbid are good for nodes too, and what
// it denies the node is not asked. The node, which knows its programs, decides by
// a configuration and an approvals file of its own ([Node], [Config].Nodes); the
// stricter of the two counts. What needs an approval is asked for at the
// gateway's desk, bound to what the node says would run, and the node is told
// with the start who approved it. It looks again, and refuses what has changed,
// has expired or was used before. What is to be always allowed is remembered on
// the node. A node with node.approvals local trusts no gateway's approval: its own
// desk asks its own operators.
//
// To the node, the gateway may ask for commands and approve them as far as the
// node's policy goes: its deny rules and security=deny hold whatever the gateway
// says. To the gateway, what a node says is a claim: it is bounded, shown as the
// node's, and makes nothing laxer.
//
// [Guard.Explain] decides in the same way and does nothing: whatever shows a
// decision shows this one.
package guard
