// Package session keeps commands that outlive the call that began them.
//
// A [Manager] has a table of sessions on disk, beside the executors' own records of
// processes. A [Session] is a command that an agent started; session and process have
// the same ID. It runs in the foreground of a call for a while ([Session.Yield]) and
// then in the background. It can be read, written to, waited for and killed. After its
// end it is kept until it is removed or the table is full ([Retention]). Sessions
// belong to an [Agent]; to another agent they do not exist.
//
// An Agent is a [corral.Executor] and a Session a [corral.Process], so code for those
// also works with sessions.
//
// # Nothing is lost
//
// The ID is in the table before its command is started. When a Manager is opened again
// after the program died, it attaches to every session without an end:
//
//   - It runs: it goes on, in the background if it was in the foreground of a
//     call that died with the program.
//
//   - It has ended: its exit status is there, and its output.
//
//   - The executor never heard of it: it had not been started
//     ([ReasonNotStarted]), and starting it again is safe.
//
//   - The outcome cannot be known: [Unknown]. No exit status is made up.
//
//   - The executor cannot be reached: the Manager asks again until it can.
//
// # Several gateways
//
// Each gateway has a table of its own. If two gateways have the same node, an agent
// finds a session that it began through one of them at the other one too, by its ID
// ([Agent.Find], Config.Elsewhere). The signed request that starts a command names the
// agent, and the node keeps that name beside the process (package origin). The found
// process is then a session of the second gateway as well, until either gateway removes
// it. Only the node's record counts, and only for an agent that asks by the ID: a list
// shows the table alone, and a process of another agent, or of no agent, does not
// exist. Only the first gateway makes an event of its end.
//
// # Events
//
// The end of a session in the background is an [Event], exactly once, written in the
// same record as the end. There is no event if a call of Wait, WaitFor or Poll was
// waiting for the end at that moment: that call has seen it. There is none for a
// session that never began either, since no caller was told that it had begun. Events
// have sequence numbers that never repeat, and are pulled ([Manager.Events]) like
// output: a reader that knows the last number it saw loses nothing and sees nothing
// twice.
package session
