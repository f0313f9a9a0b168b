// Package join is how a machine asks a gateway to be one of its nodes: the
// requests of package pairing as messages over NATS, and the line that an
// operator copies from one to the other.
//
// # The line
//
// A [Line] says where a gateway's message server is, and whom to believe there:
//
//	corral://HOST:PORT[,HOST:PORT...]/KEY/CERT
//
// KEY is the gateway's public nkey, which signs verdicts and commands; CERT the
// SHA-256 of the server's certificate in hexadecimal, or "system" where the
// certificate is one that the machine trusts anyway. With corral+wss the
// connection is a WebSocket. The line is no secret: who has it can ask.
//
// # Messages
//
// The machine publishes an [Ask] on fab.pair.<nkey> and hears a [Verdict] on
// fab.paired.<nkey>, subjects that its key may use and no other's. It asks
// again every few seconds until it is answered for good; the gateway answers
// each time, and at once when an operator decides. A verdict is signed:
//
//	[Ed25519 signature, 64 bytes][JSON]
//
// with the gateway's key over a prefix of its own, the machine's key and the
// JSON, and names the number of the ask that it is about, so that neither
// another machine's verdict nor an old one means anything. The message server can withhold a
// verdict, and make none up.
//
// Every message has at most 8 KiB.
package join
