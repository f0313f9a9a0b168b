// Package gateway is the HTTP server of Corral: sessions, the tools of agent
// platforms, logs that can be followed, terminals and events, over a Unix
// socket and, where that is asked for, loopback TCP.
//
// It decides nothing about commands. What runs, where, and whether it may, is
// the matter of what it is given ([Config]): a session.Manager, the tools, an
// MCP handler. cmd/corral wires them together. Package client is the other end
// in Go; docs/reference/http.md is the API for people, and /openapi.json the same for
// programs; a test holds real traffic against that document.
//
// # Trust
//
// A program that can open the Unix socket is the user's: the socket has the mode
// 0600 before it can be seen. On TCP every request has to show a token and to be
// addressed to a loopback name, so that neither other users nor web pages get in.
// All that a client sends is bounded in size and time, and a client that takes
// nothing for [StallLimit] is cut off.
//
// # Followers
//
// A log that is still being written can have any number of readers, but they share
// a rate: see [Config.FollowRate].
package gateway
