// Package warden is the supervisor that every command of Corral runs under: as
// PID 1 of a sandbox, as a process of its own beside the gateway, and on nodes.
//
// A [Supervisor] starts commands for the gateways that are connected to it, keeps
// them alive when a connection ends, enforces their deadlines, reaps everything, and
// keeps each exit status until a gateway has said that it is safe elsewhere
// ([wire.Forget]). It serves any number of connections of two kinds:
//
//   - over a socket that passes file descriptors, a command writes straight
//     into the gateway's pipes. The warden keeps a duplicate of the gateway's
//     ends, so that the command neither dies nor sees a broken pipe when the
//     gateway does, and hands them to a gateway that attaches;
//   - over a byte stream, the warden reads the pipes itself and sends what it
//     read with its offset, holding every byte until it is acknowledged.
//
// It also connects to ports of the loopback interface that it sees, which in a sandbox
// is the sandbox's own, and hands the sockets over ([wire.Dial]).
//
// It decides nothing: which command may run, with which environment, and
// where output is kept is its peer's business. It is linked into a program of
// a few megabytes, so it imports little.
package warden
