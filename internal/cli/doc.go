// Package cli is the program corral: it parses a command line, calls, prints, and returns
// an exit code. Below it are a package for each noun (sandboxes, nodes, approvals,
// sessions), serve for the commands that stay (gateway, node, mcp, worker), and app for what
// all of them share. In this one are corral exec and the commands that are few.
//
// It decides nothing about commands: that is corral.Resolve's, pathenv's and the executors'
// matter, and internal/daemon makes those of a configuration. What is said here is only how
// a person or a script at a terminal talks to them:
//
//   - A command's output is the command's: byte for byte and at once, to standard output and
//     standard error. Of Corral's own words nothing goes to standard output but what was
//     asked for.
//   - Corral's words on standard error are single lines: "warning: …" is a restriction,
//     "corral: …" is the failure, and a "hint: …" after it says what to do. --quiet leaves
//     out warnings and progress, never failures.
//   - The exit code is the command's. Corral's own are few (app.ExitCode).
//   - With --json, standard output is one JSON document on one line.
//   - Progress bars are for terminals; elsewhere progress is plain lines.
//   - Every flag has a value that it takes when it is left out, and the help says which.
//     Those that describe the machine rather than the call can be set by an environment
//     variable, which the help names too.
//
// Whatever reaches beyond this process (an engine, an executor) is behind daemon.Backends,
// so that the commands are tested without.
package cli
