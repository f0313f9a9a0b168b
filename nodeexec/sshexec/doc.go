// Package sshexec runs commands on machines where nothing can be installed: by
// SSH. Such a machine is a node whose name begins with "ssh:", such as
// "ssh:build1" or "ssh:ci@build1:2222".
//
// [Hosts] are those machines, and [Nodes] hands their names to them and all
// others on. Only hosts that the operator has listed can be used. They are found
// as ssh finds them: by ssh_config(5), as far as it is honoured, by known_hosts,
// and with the keys of an agent or of files. A host key that is not known is
// refused.
//
// # How a command is run
//
// Each command is a session of a connection that many share. What the server
// is asked to execute is always the same short text: a shell that reads one
// line from its standard input and evaluates it. That line changes to the
// working directory, exports the environment, says on standard output that it
// is about to begin, and executes the command in its own place. So nothing of a
// command is on the server's disk, what is in its environment is in no argument
// list, no value is ever part of a text that a shell expands, and the exit
// status and the PID are the command's own.
//
// Output goes into a log on this machine's disk. Signals, and time-outs, find
// the processes of a command on the other machine, by their session, their
// ancestry and a variable in their environment, and are sent by kill.
//
// # What it does not do
//
// There is no supervisor on the other side. What runs when the connection is
// cut, or when this program ends, is lost: corral.ErrLost, never a made-up
// code. docs/how-to/ssh-nodes.md has the list of what is different from other nodes.
package sshexec
