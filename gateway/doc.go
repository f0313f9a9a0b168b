// Package gateway is the HTTP server of Corral: sessions, the tools of agent
// platforms, logs that can be followed, terminals and events, over a Unix
// socket and, where that is asked for, loopback TCP.
//
// It decides nothing about commands. What runs, where, and whether it may, is
// the matter of what it is given ([Config]): a session.Manager, the tools, an
// MCP handler. cmd/corral wires them together. Package client is the other end
// in Go, docs/reference/http.md the API for everybody else, and /openapi.json the same
// for programs; a test holds real traffic against that document.
//
// # Trust
//
// Whoever can open the Unix socket is the user: it is made 0600 before anybody
// can see it. On TCP every request has to show a token and to be addressed to
// a loopback name, so that neither other users nor web pages get in. What a
// client sends is bounded in size and time all the same, and a client that
// takes nothing for [StallLimit] is cut off.
//
// # Followers
//
// A log that is still being written is read by as many as like to, but not as
// fast as they like: see [Config.FollowRate].
package gateway
