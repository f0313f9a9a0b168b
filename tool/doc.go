// Package tool has the tools that agent platforms call, exec and process, on the
// sessions of one agent.
//
//   - [Tools.Exec] runs a command. It waits for it for a while, and then
//     leaves it in the background as a session.
//   - [Tools.Process] lists, reads, writes to, waits for and ends sessions.
//   - [Tools.Call] calls either of them, for callers that have a tool's name and
//     JSON, such as an HTTP API or package tool/mcp. It accepts numbers and
//     booleans that are written as strings, and warns of unknown fields.
//   - [Tools.Definitions] describes the tools to a model: names, descriptions and
//     JSON Schemas, made from the Go types.
//
// Every result is one struct with two renderings: JSON for programs, and Text for a
// model. A failure is never a Go error: if a command could not start, was denied or
// was lost, the result says so, since a model has to read it. A command that exited
// with any code, also 126 and 127, or that a signal ended, is [StatusCompleted].
//
// Results are bounded ([Config].MaxOutput) and have no terminal control sequences.
// The whole output, byte for byte, is in the log of the session.
package tool
