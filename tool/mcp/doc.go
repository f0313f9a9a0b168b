// Package mcp serves the tools of an agent over the Model Context Protocol: on a
// pair of streams, for a client that starts the server ([Server.Serve]), and over
// HTTP ([Server.Handler]).
//
//	s := mcp.New(mcp.Config{Tools: tool.New(tool.Config{Agent: manager.Agent("main")})})
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
//
// A result is text for the model and, as structured content, the JSON of package
// tool. While a call waits for a command, the server sends its progress if the client
// asked for that. If the client cancels a call, the command in its foreground is
// killed; a session in the background goes on, even after the client has gone. A
// command that takes longer than yieldMs is returned as a session, to be followed with
// the tool process. So a client's own time-out does no harm.
//
// If a command needs an approval and the client can ask its user, the user is asked;
// otherwise the result says that the approval is pending.
//
// Over HTTP, clients of protocol versions up to 2025-11-25 have sessions of the
// protocol, whose streams can be resumed; from 2026-07-28 on every request stands
// alone. The program that mounts the handler has to authenticate callers, since they
// may run commands.
package mcp
