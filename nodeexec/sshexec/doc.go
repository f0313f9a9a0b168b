// Package sshexec runs commands on machines where nothing can be installed: by
// SSH. Such a machine is a node whose name begins with "ssh:", such as
// "ssh:build1" or "ssh:ci@build1:2222".
//
// [Hosts] are those machines. [Nodes] sends their names to Hosts and all other names
// on. Only hosts that the operator has listed can be used. They are found as ssh finds
// them: by the supported parts of ssh_config(5), by known_hosts, and with the keys of
// an agent or of files. An unknown host key is refused.
//
// # How a command is run
//
// Each command is a session of a shared connection. The server always gets the same
// short text to execute: a shell that reads one line from its standard input and
// evaluates it. That line changes to the working directory, exports the environment,
// reports on standard output that it is about to begin, and replaces itself by the
// command. So nothing of a command is on the server's disk, its environment is in no
// argument list, no value becomes part of a text that a shell expands, and the exit
// status and the PID are the command's own.
//
// Output goes into a log on this machine's disk. Signals, and time-outs, find
// the processes of a command on the other machine, by their session, their
// ancestry and a variable in their environment, and are sent by kill.
//
// # What it does not do
//
// There is no supervisor on the other side. A command that runs when the connection is
// cut, or when this program ends, is lost: corral.ErrLost, never a made-up code.
// docs/how-to/ssh-nodes.md lists the differences from other nodes.
package sshexec
