// Package hostexec runs commands on this machine: the gateway host.
//
// Its commands live under a warden (see [Config.InProcess] for the exception):
// a small process of its own that outlives the gateway, so that a gateway that
// dies loses no command, no output and no exit status; the next one, with the
// same StateDir, finds them by Attach.
//
// Command.Shell is run by $SHELL -c; if that is fish, by bash from PATH, else
// by sh, else by fish after all. The environment is this process's, less what
// package pathenv leaves out, with the login shell's PATH before it.
//
// On a machine that is a node ([Config].Node) it is /bin/sh -lc, and the call's
// PATH, which may only add to the node's, is put in place after the profile.
//
// A command's tree is killed as a whole. Where a cgroup v2 directory has been
// delegated to this process that is the kernel's doing (cgroup.kill);
// elsewhere the tree is found by session, parents, environment and limits,
// which a process can only lose on purpose.
//
// Isolation is none: a command can do what this user can. Whether it may is
// decided before it comes here.
//
// On systems other than Linux [New] returns an error that wraps
// errors.ErrUnsupported: the warden needs subreapers, descriptor passing and
// /proc. Commands of such a machine run in a sandbox of an engine on it.
package hostexec
