// Package client speaks to a gateway of Corral over HTTP.
//
// A [Client] is a corral.Executor: what it starts are sessions of the gateway,
// in the background, and what works on processes works on them. Beside that it
// calls tools, lists sessions, follows events and attaches to terminals.
//
//	o, err := client.Discover(stateDir) // or client.Options{URL: …, Token: …}
//	c, err := client.New(o)
//	defer c.Close()
//	p, err := c.Start(ctx, corral.Command{Shell: "make test"})
//	exit, err := p.Wait(ctx)
//
// # When the gateway is away
//
// A gateway may be restarted at any time; commands go on meanwhile. Calls are
// repeated, less and less often, for [Options].Retry after the gateway was last
// reached, wherever repeating is safe:
//
//   - Start, because the ID is chosen here and a gateway starts an ID once.
//   - Everything that reads: logs and events go on at the offset they were at.
//   - Wait, CloseStdin, Resize, Remove, Kill and signals that have the same
//     effect twice (KILL, TERM, STOP, CONT).
//   - Whatever was not sent, since no gateway listened.
//
// It is not safe for Write, other signals and tools without an ID: when the
// connection is cut before the answer has come, that is corral.ErrLost. Write
// then returns how much had surely been handed over; the rest may have been.
//
// A gateway that was never reached by this Client is corral.ErrUnavailable at
// once.
package client
