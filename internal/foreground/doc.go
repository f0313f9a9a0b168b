// Package foreground has a command or a session in the foreground of this program's
// terminal, with a user at the other end of it: his signals, his keys, the size of his
// terminal, and what it shows.
//
//	job.go     a command that the program waits for
//	attach.go  a session that it is attached to
//	signals.go what is sent to the program
//	stdin_*.go whether standard input was given for this call
//	view.go    where output goes
package foreground
