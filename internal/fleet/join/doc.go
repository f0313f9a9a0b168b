// Package join lets a machine ask a gateway to become one of its nodes. It has the
// requests of package pairing as messages over NATS, and the line that an operator
// copies from the gateway to the machine.
//
// # The line
//
// A [Line] says where a gateway's message server is, and which keys to trust:
//
//	corral://HOST:PORT[,HOST:PORT...]/KEY/CERT
//
// KEY is the gateway's public nkey, which signs verdicts and commands. CERT is the
// SHA-256 of the server's certificate in hexadecimal, or "system" if the machine trusts
// the certificate anyway. With corral+wss the connection is a WebSocket. The line is no
// secret: it only allows a machine to ask.
//
// # Messages
//
// The machine publishes an [Ask] on fab.pair.<nkey> and receives a [Verdict] on
// fab.paired.<nkey>. Only its key may use these subjects. It asks again every few
// seconds until the answer is final. The gateway answers each time, and at once when an
// operator decides. A verdict is signed:
//
//	[Ed25519 signature, 64 bytes][JSON]
//
// with the gateway's key, over a prefix of its own, the machine's key and the JSON. It
// names the number of its ask, so another machine's verdict or an old one is worthless.
// The message server can withhold a verdict, but cannot forge one.
//
// Every message has at most 8 KiB.
package join
