// Package pathenv decides the environment of a command: its variables, its PATH,
// the shell that reads its text, and the file for a bare program name.
//
// The three hosts differ, and each has one function here:
//
//   - [Gateway]: this machine. The daemon's environment is inherited without
//     variables that run code, redirect tools or hold credentials. PATH is
//     pathPrepend, then the login shell's PATH (see [LoginProbe]), then the
//     daemon's own. A call may add variables but not PATH and not one that
//     changes what code runs.
//   - [Sandbox]: a container. Nothing is inherited. The call's PATH and
//     pathPrepend travel in an internal variable and are put before PATH after
//     the login profile has set it, because /etc/profile may reset PATH.
//   - [NodeRequest] and [Node]: the two ends of a remote machine. Only the
//     call's variables are sent, and PATH only as additions before the node's
//     own.
//
// Each returns an [Environment]: the variables, the origin of every PATH entry, and
// the variables that were left out, by name and with the reason. A refused variable
// of the call is an error. A variable from another source is left out and reported.
//
// The rules are data (rules.go). Names are compared without regard to case.
//
// Nothing here starts a command or writes a file, apart from the login probe, and
// nothing reads this process's environment: callers pass it in. Package
// pathenv/lookup is separate so that a small program can import it alone.
package pathenv
