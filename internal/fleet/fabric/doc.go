// Package fabric is the protocol between a gateway and a node over NATS, and the node's
// side of it: [Serve] exports any corral.Executor. The gateway's side is package
// nodeexec; the message server inside a gateway is package broker.
//
// Decisions, and why:
//
//   - The node is the truth. Its executor keeps sessions, logs and exit statuses
//     on its own disk. This package keeps nothing that is needed after a restart of
//     either side. Time-outs travel in the command and are enforced on the node.
//
//   - Messages may be lost, repeated and reordered: NATS drops messages that it cannot
//     deliver now. So every request is repeated until it is answered, and a
//     repeated request is recognised.
//
//   - The message server is not trusted with commands. It can withhold, and it
//     can read; it cannot ask a node for anything, nor ask twice.
//
//   - No peer can make this program use unbounded memory: every message, queue and
//     table is bounded, and every parser here is fuzzed.
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
// <life> is one life of a gateway's program, and unguessable. A node may publish only
// on subjects with its own id, and subscribe to fab.n.<node>.> alone, so the server
// stops a node that speaks for another. A request names an inbox of its own as the
// reply subject: if no client is subscribed, the server says so there at once.
//
// # Envelopes
//
//	[length of header u16][header JSON][Ed25519 signature, 64 bytes][body]
//
// The gateway signs the header, behind a prefix of its own. The [Header] names the
// node, the life of the node's program (boot), the node's epoch, the gateway's key
// and life, a number, the operation, the process, and the size and SHA-256 of the
// body, which holds the command. The node checks all of it before anything happens:
//
//   - The node was paired with the gateway that has this key, and the signature
//     holds. So nothing can be changed on the way.
//   - Node and boot are its own. So a request cannot be sent to another node, and
//     one that was recorded before a restart means nothing.
//   - It knows the epoch: see Epochs.
//   - (key, life, number) was not used: a window of 65536 numbers for requests
//     with answers and one of 4096 for bulk, for each of at most 256 lives. A life
//     is forgotten only when the node knows none of its epochs any more.
//
// To sign takes about 30 µs and to verify 80 µs, together 4 % of the time of a
// short command on a node. A secret that both sides agree on would save most of
// that, but is one more protocol whose security we would have to prove.
//
// # Epochs
//
// An epoch is a random number that the node makes when it starts, and every 30 s
// after that. It knows each one for 3 minutes, by its own clock, and keeps them in
// memory alone. So no clock has to be right; a request that was withheld is worth
// nothing after 3 minutes; and no request can be made for a later time or a later
// life of the node.
//
// A hello has the epoch. A refusal has it too: RefusedBoot for a request to another
// life of the node's program, RefusedEpoch for an epoch that the node does not know. A
// refused request was not acted upon, so the gateway signs it again. Hellos are not
// signed: the message server lets a node publish only its own. A message server that
// forges one only makes the gateway sign requests that the node refuses.
//
// A hello also has the node's clock, so that the gateway can convert the times of the
// node to its own clock.
//
// # Repetition
//
// A request is sent again as the same bytes. If it was acted upon, the node repeats the
// answer (it keeps 16 MiB of them) and does nothing else: each request is acted upon at
// most once in a life of the node's program. When the answer is forgotten, or the
// request has expired, the gateway makes a new request only if a second execution has
// the same effect. The executor makes starting an ID twice safe; attach never starts
// anything. A refusal gives its reason in [Answer], except for a message that is no
// envelope; refusals are logged, a few a second at most.
//
// A body of more than [MaxData] bytes follows in parts, which any server with a
// max_payload of 64 KiB takes. A part is kept only if a genuine header announced
// it: 64 bodies and 64 MiB at a time, 14 MiB each.
//
// # Decisions
//
// A node whose executor is [Guarded] has a policy of its own. A start names the
// gateway's agent, and the least strictness that the gateway wants (security, ask).
// Decide has the body of a start. Its answer is the decision about that start, in at
// most 48 KiB of JSON ([Answer].Decision); it starts nothing, asks for no approval, and
// may be repeated. A node without a policy answers that it does not support Decide.
//
// A start may carry a grant, of at most 4 KiB: the gateway's statement that a person
// approved it. It is part of the body, and so of the signed request to this node, this
// life of its program and this process. This package does not read decisions or grants:
// package policy/guard makes and reads both, on either side. A grant names the
// approval, the agent, the process and the digest of the command that the node's
// decision named. It is good for five minutes. The node checks all of that again, and
// keeps on its disk which approvals were used. Starting an ID that has a process is no
// start: nothing is decided and no grant is used.
//
// # Output
//
// A reader on the gateway grants: "from offset F, up to offset L" ([Grant]). The node
// sends chunks of at most 31 000 bytes. Each has the offset it was read from, the
// offset of its data (they differ where the log has a gap), and its stream ([Output]).
// A chunk that begins beyond the expected offset shows that something was lost; the
// reader then tells the node to go back. It also does so after a cut connection, and
// now and then while it waits. It drops data that it has already, by the offset. The
// last chunk says how the process ended and what the log holds. A start carries a first
// grant: a short command is three messages: the start, its answer, and its output with
// its end. To a gateway that takes it so, a chunk comes packed if that saves something
// ([packed.Append]).
//
// A reader's window is 4 KiB. It grows from 64 KiB to 4 MiB as long as all windows of
// the gateway together are below 32 MiB. If the gateway's program stops reading, the
// granted bytes stay in memory for two seconds. On the node a reader costs 2 KiB, or 31
// KB while it has much to send (512 of them). There are at most 4096 readers, and a
// reader that is silent for a minute is removed.
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
// one that is silent for 30 s is ended where it is.
//
// # Versions
//
// A [Hello] says which versions a node speaks and what features it has. This is
// version 1, and there are no features yet. A gateway uses a node only if
// [Negotiate] agrees; a node refuses an envelope of another version. Fields that
// are not known are ignored.
//
// # Presence
//
// If hellos of two lives of a node's program arrive, the gateway asks for another: when
// the life that it knows answers, two machines have the node's key, and the other is
// ignored.
//
// A node is offline when it has been silent for two and a half heartbeats, when it said
// that it leaves, or when the server says that it is not subscribed. A hello also says
// how busy the node is ([Load]).
//
// This package does not do pairing, and it has no policy: a node's policy belongs to
// the executor that it serves.
package fabric
