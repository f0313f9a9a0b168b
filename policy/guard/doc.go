// Package guard decides on commands of agents before they run on a machine without
// a boundary of its own. It joins the rules of the configuration, of the host's
// approvals file and of the call, calls package policy, and lets people approve.
//
// [Guard.For] is the guard of a corral.Router. For a command that needs an approval
// it returns an [approval.PendingError] with the record at the desk. Once the command
// is allowed, [Guard.Serve] has it run, even after a restart of the program. For a
// command that may not run it returns a [policy.DeniedError] with the decision.
//
// # Nodes
//
// A command for a node is decided on twice. First the gateway's guard decides on the
// text: its security, ask, deny rules and ask rules apply to nodes too. If it denies
// the command, the node is not asked. Then the node decides. It knows its programs,
// and has a configuration and an approvals file of its own ([Node], [Config].Nodes).
// The stricter decision counts. An approval is asked for at the gateway's desk, bound
// to the programs that the node would run. The start tells the node who approved. The
// node decides again, and refuses an approval if the command has changed, or if the
// approval has expired or was used before. Rules of allow-always are kept on the node.
// A node with node.approvals local accepts no approval of a gateway: its own desk asks
// its own operators.
//
// For the node, a gateway may start and approve commands only as far as the node's
// policy allows: the node's deny rules and security=deny always hold. For the gateway,
// the answer of a node is only a claim: it is bounded, shown as the node's, and makes
// nothing laxer.
//
// [Guard.Explain] decides in the same way and changes nothing. Everything that shows
// a decision uses it.
package guard
