// Package mcp serves the tools of an agent over the Model Context Protocol: on
// a pair of streams, as a client that starts the server wants it
// ([Server.Serve]), and over HTTP ([Server.Handler]).
//
//	s := mcp.New(mcp.Config{Tools: tool.New(tool.Config{Agent: manager.Agent("main")})})
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
//
// A result is text for the model and, as structured content, the JSON of
// package tool. While a call waits for a command, its progress is notified if
// the client asked for that. A call that the client cancels kills the command
// in its foreground; a session in the background goes on, also when the client
// is gone. What takes longer than yieldMs comes back as a session, to be
// followed with the tool process, so that no client's own time-out is in the
// way.
//
// A command that needs an approval is asked about where the client can elicit
// an answer from its user; otherwise the result says that it is pending.
//
// Over HTTP, clients of protocol versions up to 2025-11-25 have sessions of the
// protocol, whose streams can be resumed; from 2026-07-28 on every request stands
// alone. The program that mounts the handler has to check who may call: a caller may
// run commands.
package mcp
