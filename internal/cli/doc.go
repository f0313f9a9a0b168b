// Package cli is the program corral: it parses a command line, wires the
// executors together, runs one thing and returns an exit code.
//
// It decides nothing about commands. Where one may run is corral.Resolve's
// matter, what becomes of its environment pathenv's, and how it runs the
// executors'. What is said here is only how a person or a script at a terminal
// talks to them:
//
//   - A command's output is the command's. What it writes goes to our standard
//     output and standard error, byte for byte and at once; of Corral's own
//     words nothing ever goes to standard output but what was asked for.
//   - Corral's words on standard error are single lines: "warning: …" is a
//     restriction, "corral: …" is the failure, and a "hint: …" after it says
//     what to do. --quiet leaves out warnings and progress, never failures.
//   - The exit code is the command's. Corral's own are few and are decided in
//     one place (exit.go).
//   - With --json, standard output is one JSON document on one line.
//   - Progress bars are for terminals; elsewhere progress is plain lines.
//   - Every flag has a value that it takes when it is left out, and the help
//     says which. Those that describe the machine rather than the call can be
//     set by an environment variable, which the help names too.
//
// Whatever reaches beyond this process (an engine, an executor) is behind the
// functions of type backends, so that the commands are tested without.
package cli
