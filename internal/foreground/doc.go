// Package foreground runs a command or a session in the foreground of this program's
// terminal. It handles the user's signals and keys, the size of the terminal, and the
// output.
//
//	job.go     a command that the program waits for
//	attach.go  a session that the terminal is attached to
//	signals.go signals that the program receives
//	stdin_*.go whether standard input was given for this call
//	view.go    where output goes
package foreground
