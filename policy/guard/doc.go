// Package guard stands before the commands of agents that run on a machine
// without a boundary of its own: it puts together what the configuration, the
// host's approvals file and the call say, has package policy decide, and lets
// people approve.
//
// [Guard.For] is what a corral.Router asks. A command that needs an approval is
// a [PendingError], with the record at the desk; when it is allowed,
// [Guard.Serve] has it run, also by a later life of the program. A command that
// may not run is a [DeniedError], with the decision.
//
// [Guard.Explain] is the same without doing anything: whatever shows a decision
// shows this one.
package guard
