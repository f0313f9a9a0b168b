// Package session keeps commands that outlive the call that began them.
//
// A [Manager] has a table of sessions on disk, beside what executors keep of
// the processes themselves. A [Session] is a command that an agent started,
// with one ID for both: it runs in the foreground of a call for a while
// ([Session.Yield]) and then in the background, is read, written to, waited
// for and killed, and is kept after its end until it is removed or the table is full
// ([Retention]). Sessions belong to an [Agent]; to another agent they do not exist.
//
// An Agent is a [corral.Executor] and a Session a [corral.Process], so that
// whatever works on those works on sessions.
//
// # Nothing is lost
//
// Before a command is started its ID is in the table. A Manager that is opened
// again after the program died attaches to every session without an end:
//
//   - It runs: it goes on, in the background if it was in the foreground of a
//     call that died with the program.
//   - It has ended: its exit status is there, and its output.
//   - The executor never heard of it: it had not been started
//     ([ReasonNotStarted]), and starting it again is safe.
//   - It cannot be known: [Unknown]. No exit status is made up.
//   - The executor cannot be reached: it is asked again until it can.
//
// # Several gateways
//
// Each gateway has a table of its own. What an agent began through one on a node
// that both have, another finds by its ID ([Agent.Find], Config.Elsewhere): the
// node keeps beside the process whose it is (package origin), as it was told in the
// signed request that started it, and says so. Then it is a session there as well,
// until either removes it. Only what that node says decides, and only for the
// agent that asks by the ID: a list has what is in the table, and what belongs to no
// agent, or to another one, does not exist. Its end is an event of the gateway where
// it began, and of no other.
//
// # Events
//
// The end of a session in the background is an [Event], exactly once, written
// in the same record as the end. There is none if a call was waiting for the end at
// that moment, by Wait, WaitFor or Poll: that call has seen it. A session that never
// began has none either, since no caller was told that it had begun. Events have
// sequence numbers that never repeat, and are pulled ([Manager.Events]) like output:
// a reader that knows the last number it saw loses nothing and sees nothing twice.
package session
