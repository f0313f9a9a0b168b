// Package fabric is what a gateway and a node say to each other over NATS, and
// the node's side of it: [Serve] exports any corral.Executor. The gateway's side
// is package nodeexec, the message server inside a gateway package broker.
//
// Decisions, and why:
//
//   - The node is the truth. Its executor keeps sessions, logs and exit statuses
//     on its own disk; here nothing is kept that is needed after a restart of
//     either side. Time-outs travel in the command and are enforced there.
//   - Messages may be lost, repeated and reordered: NATS drops what cannot be
//     delivered now. So everything is asked for until it is answered, and what is
//     asked is recognised when it comes again.
//   - The message server is not trusted with commands. It can withhold, and it
//     can read; it cannot ask a node for anything, nor ask twice.
//   - Nobody is trusted with memory: every message, queue and table is bounded,
//     and every parser here is fuzzed.
//
// # Subjects
//
//	fab.n.<node>.req         to a node: an envelope
//	fab.n.<node>.part        to a node: a piece of a large envelope's body
//	fab.n.<node>.who         to a node: say hello
//	fab.hb.<node>            from a node: Hello, at each connection and every 5 s
//	fab.gw.<life>.<node>.a.N from a node: the answer to request N
//	fab.gw.<life>.<node>.o.N from a node: output for reader N
//	fab.gw.<life>.<node>.w.N from a node: how far write N has come
//	fab.pair.<nkey>, fab.paired.<nkey>  for keys that belong to no node
//
// <life> is one life of a gateway's program, and unguessable. A node may publish
// only where its own id stands, and subscribe to fab.n.<node>.> alone, so that the
// server stops a node that speaks for another. A request names an inbox of its
// own as the reply subject: the server says there, at once, that nobody listens.
//
// # Envelopes
//
//	[length of header u16][header JSON][Ed25519 signature, 64 bytes][body]
//
// The signature is the gateway's, over the header behind a prefix of its own. The
// [Header] names the node, the life of the node's program (boot), the gateway's
// key and life, a number, when it was made, the operation, the process, and the
// size and SHA-256 of the body, which holds the command. All of it is checked
// before anything happens:
//
//   - The key is one that the node was paired with.
//   - Node and boot are its own: nothing that was meant for another node, or was
//     sent before a restart, means anything.
//   - It is of late: see Time.
//   - (key, life, number) was not used: a window of 65536 numbers for requests
//     with answers and one of 4096 for bulk, for each of at most 256 lives, which
//     are forgotten only when every request of them has expired.
//
// # Agreements
//
// Signatures are slow, where a command is short. So the first request of a
// gateway's life to a node's is signed, and agrees on a secret with which the
// others are proven:
//
//	[0x80][agreement, 16 bytes][number u64][epoch u64]
//	[length u8, boot][length u8, life][length u8, op][length u8, process][body][HMAC-SHA-256, 32 bytes]
//
// Each life of a program has a key for X25519 that it keeps nowhere ([Share]). A
// hello tells the node's public half; a signed header tells the gateway's, and
// repeats the node's. Both come to the same secret, by HKDF-SHA-256 over what
// X25519 makes of the two, with the node, boot, key, life and both halves as its
// info ([Agreement]). The message server knows neither private half, so it can
// make no request: if it puts a half of its own into a hello, the node refuses the
// header that repeats it; into a header, the signature does not hold. What is
// checked of a request is what is checked of a signed one, numbers are the same
// row, and an agreement goes when its life is forgotten.
//
// A gateway relies on an agreement when a request that asked for it was answered,
// and was not silent for 4 minutes. If the node does not know it (any more), it
// says so, and the request is signed; whoever forges that word makes requests
// slower. A request that does not fit into one message is signed. A node whose
// hello has no share is one of an older program: every request to it is signed.
// A gateway of an older program signs every request, which all nodes take.
//
// # Time
//
// No clock has to be right. A hello says the epoch of the node: a random number
// that is another every 30 s and is known for 3 minutes, by the node's own clock.
// A request names the one in which it was made. So it holds for 3 minutes at most,
// and nobody can have the gateway make one for a time to come. A request of an
// epoch that is not known is refused with the one that it is, and made anew.
//
// A hello says as well what time it is on the node, so that the gateway can tell
// when something happened there by its own clock.
//
// Where one of the two is of an older program, a request says until when it holds
// by the gateway's clock: that is within [Lifetime], give or take [MaxSkew].
//
// # Repetition
//
// A request is sent again as the same bytes. If it was acted upon, the answer is
// repeated (16 MiB of them are kept) and nothing else happens: each request is
// acted upon at most once in a life of the node's program. After that, or when
// it has expired, only what has the same effect twice is asked for anew. Starting
// an ID twice is up to the executor, which does it once; attach never starts
// anything. A refusal says why, in [Answer], except for what is no envelope at
// all; every refusal is logged, a few a second at most.
//
// A body of more than [MaxData] bytes follows in parts, which any server with a
// max_payload of 64 KiB takes. A part is kept only if a genuine header announced
// it: 64 bodies and 64 MiB at a time, 14 MiB each.
//
// # Decisions
//
// A node whose executor is [Guarded] has a policy of its own. A start names the
// agent of the gateway whose command it is, and how strict the gateway wants it
// at least (security, ask). Decide has the body of a start, and is answered with
// what would become of it, in at most 48 KiB of JSON ([Answer].Decision); it
// starts nothing and asks nobody, and may be asked for anew. A node without a
// policy answers that it does not support it.
//
// A start may carry a grant, of at most 4 KiB: the word of the gateway that
// somebody approved it. It is part of the body, and so of what is signed for this
// node, this life of its program and this process. Neither decisions nor grants
// are read here: package policy/guard makes and reads both, on either side. There
// a grant names the approval, the agent, the process and the digest of what the
// node said would run, and is good for five minutes from when it was given; the
// node looks at all of that again, and keeps on its disk which approvals were used. Starting an ID
// that has a process is no start: nothing is decided and no grant used.
//
// # Output
//
// A reader on the gateway grants: "from offset F, up to offset L" ([Grant]). The
// node sends chunks of at most 31 000 bytes, each with the offset it was read
// from, the offset of its data (they differ where the log has a gap), and its
// stream ([Output]). A chunk that begins beyond what the reader expects shows
// that something was lost, and the reader has the node go back. It does so as
// well when a connection was cut, and now and then while it waits. What it has
// already is dropped by its offset. The end of the log is a chunk that says how
// the process ended and what the log holds. A start carries a first grant: a
// short command is three messages, the start, its answer, and its output with
// its end.
//
// A reader's window grows from 64 KiB to 4 MiB while 32 MiB for all of a gateway
// last, and is 4 KiB otherwise. One that is not read on costs what it was granted,
// for two seconds. On the node a reader costs 2 KiB, or 31 KB while it has much
// to send (512 of them); there are 4096, and those of which nothing is heard for
// a minute go.
//
// # Input
//
// A write has a number, a length and offsets of its own ([Input]). Its first
// piece, of at most 31 000 bytes, opens it; the others go as far as the node
// grants (256 KiB beyond what the process took). The node hands the writes to a
// process over one after the other, and says how much the process took, what
// arrived, and what is granted ([InputAck]); at the end, or when it is aborted,
// exactly how much was handed over. Only a first piece begins a write, and its
// envelope is taken once: nothing is typed twice. There are 1024 writes at a time;
// one of which nothing is heard for 30 s is ended where it is.
//
// # Versions
//
// A [Hello] says which versions a node speaks and what features it has. This is
// version 1, and there are no features yet: what is in a hello beside them (share,
// epoch, clock) tells what the node takes. A gateway uses a node only if
// [Negotiate] agrees; a node refuses an envelope of another version. Fields that
// are not known are ignored.
//
// # Presence
//
// A node that has been silent for two and a half heartbeats is offline, and so is
// one that said it leaves, or where the server says that nobody listens. A hello
// says as well how busy the node is ([Load]).
//
// What this package does not do: pairing, and a policy of the node's own, which is
// that of the executor that is served.
package fabric
