// Package tool has what agent platforms call: the tools exec and process, on
// the sessions of one agent.
//
//   - [Tools.Exec] runs a command. It waits for it for a while, and then
//     leaves it in the background as a session.
//   - [Tools.Process] lists, reads, writes to, waits for and ends sessions.
//   - [Tools.Call] is both for callers that have a tool's name and JSON, such
//     as an HTTP API or package tool/mcp. It takes numbers and booleans that
//     are written as strings, and names fields that it does not know in a
//     warning.
//   - [Tools.Definitions] is what a model is told: names, descriptions and
//     JSON Schemas, made from the Go types.
//
// Every result is one struct with two renderings: as JSON for programs, and as
// Text for a model. An outcome is never an error of Go: a command that could
// not start, was denied or was lost is a result that says so, since a model
// has to read it. A command that exited with any code, also 126 and 127, or
// that a signal ended, is [StatusCompleted].
//
// What is in results is bounded ([Config].MaxOutput) and has no terminal
// control sequences. All of the output, byte for byte, is in the log of the
// session.
package tool
