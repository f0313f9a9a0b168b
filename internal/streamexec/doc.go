// Package streamexec makes processes of streams. A command runs elsewhere, and only its
// input, its output and finally its exit arrive here. The exec API of a container
// engine and a session of SSH work like that.
//
// The output goes into a log on this machine's disk, and is read from there. Input
// waits in a small queue, so that a Write can be cancelled. Starting an ID again
// returns the existing process. A descendant that holds the output delays Wait by a
// bounded time.
//
// Each process has one record, ID.json, beside its log: the command, written before the
// start, and how it ended. If an earlier life of this program started a process and did
// not see it end, the process is lost.
//
// The [Place] starts, ends and signals commands.
package streamexec
