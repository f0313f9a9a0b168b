// Package hostexec runs commands on this machine: the gateway host.
//
// Its commands run under a warden (see [Config.InProcess] for the exception): a small
// process that outlives the gateway. So a gateway that dies loses no command, no output
// and no exit status: the next gateway with the same StateDir finds them by Attach.
//
// $SHELL -c runs Command.Shell. If $SHELL is fish, bash from PATH runs it, else sh,
// else fish. The environment is this process's, without the variables that package
// pathenv leaves out, and with the login shell's PATH in front.
//
// On a machine that is a node ([Config].Node) the shell is /bin/sh -lc. The call's
// PATH, which may only add to the node's, is set after the profile.
//
// A command's tree is killed as a whole. If a cgroup v2 directory is delegated to this
// process, the kernel does it (cgroup.kill). Otherwise the tree is found by session,
// parents, environment and limits, which a process can only lose on purpose.
//
// There is no isolation: a command has this user's rights. Whether it may run is
// decided before it comes here.
//
// On systems other than Linux [New] returns an error that wraps
// errors.ErrUnsupported: the warden needs subreapers, descriptor passing and
// /proc. Commands of such a machine run in a sandbox of an engine on it.
package hostexec
