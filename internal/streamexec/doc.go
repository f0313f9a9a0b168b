// Package streamexec runs commands that are nothing but streams: they are started
// elsewhere, and here there is only their input, their output and, at last, how they
// ended. That is what the exec API of a container engine gives, and a session of SSH.
//
// The package makes a corral.Process of that: the output goes into a log on
// this machine's disk, from where it is read; input waits in a small queue, so
// that a Write can be given up; starting an ID again returns what it started;
// a descendant that holds the output delays Wait by a bounded time.
//
// Records are one file a process, ID.json, beside its log: what was started,
// written before it is, and how it ended. A process that an earlier life of
// this program started and did not see ending is lost.
//
// How a command is started, ended and signalled is the [Place]'s.
package streamexec
