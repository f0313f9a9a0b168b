// Package e2b speaks the wire of E2B's clients: its control plane (sandboxes by REST) and
// what its clients talk to inside of a sandbox (envd: the services process.Process and
// filesystem.Filesystem by Connect, and files by HTTP).
//
// A sandbox of E2B's is one of Corral's. It belongs to an agent, and its name is its ID.
// Its processes are sessions of that agent, so that policy, limits, keys, logs and
// restarts are as for all others: nothing is run in a second way. What is here beside that
// is what E2B has and Corral has not: a deadline, metadata, variables for all commands and
// a token for each sandbox, in a file of the state directory ([Store]).
//
// Package gateway serves [Server.Control], [Server.Inside] and [Server.Ports] on a listener
// of their own, since their paths are E2B's: it checks keys, writes the log, and counts.
package e2b
