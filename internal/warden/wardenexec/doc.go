// Package wardenexec is the gateway's side of a warden: a corral.Executor over
// one connection to one warden, wherever that is. Package hostexec connects it
// to a warden on this machine, package sandbox to one in a container.
//
// It makes the pipes and passes them, or moves output and input in messages
// where descriptors cannot be passed; writes the logs; matches answers to
// requests; connects again when a connection breaks, with every process going
// on where it was; and knows after a restart what became of each process.
//
// Records, one directory for each executor:
//
//	journal   the ID of every process, a line each, before it is started; how it
//	          ended, as JSON, before the warden may forget it; and that it was
//	          removed
//	ID.out …  its output (package outlog)
//
// An ID that was started, has no end and is not known to the warden is lost. The
// journal is written anew, without what was removed, when it has grown to four times
// what is in it and no other program has it open.
package wardenexec
