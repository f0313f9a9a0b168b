// Package pairing knows who is a node: which keys were approved, which ask to
// be, and which setup tokens stand for an approval. It is state alone: packages
// that speak with nodes ask it ([Registry.Authorize]) and tell it what came in
// ([Registry.Ask], [Registry.Redeem], [Registry.Seen]); operators answer
// ([Registry.Approve], [Registry.Reject], [Registry.Revoke]).
//
// # Nodes
//
// A node is a key: the public half of an nkey for users, with which it signs the
// nonce of every connection. Its id is derived from the key ([ID]) and never
// changes: 20 characters of 0-9 and a-z without i, l, o and u. Its name is for
// people. The node suggests one; it is made into 1 to 63 of the characters a-z,
// 0-9, '.', '_' and '-', and told apart from others by a number at its end. No
// name looks like an address, like an id, or like the beginning of another
// node's id, since nodes are chosen by any of these. A revoked node has no claim
// to its name.
//
// A key that was paired before is the same node, however often it asks. A new key is
// another node, whatever it calls itself: it has to be approved, and its request says
// which node has the name it wants ([Request].SameName).
//
// Addresses of a node are those that the gateway saw it at. What a node says of
// its addresses is shown to who approves it, and used for nothing.
//
// # Requests
//
// A key asks, and waits for at most [RequestLimit] to be answered; asking again
// begins that time anew. The first answer counts. A rejected key is told so for
// as long, and then may ask again. At most 256 keys wait at a time, and 8 from
// one address (of IPv6, from one /64). Requests are kept in memory alone, so that
// who is not approved writes nothing to disk: a node asks again when it connects
// to the next life of a gateway.
//
// Both sides show the same [Code], which is derived from the key of the node and that
// of the gateway. The operator who approves compares the two: a message server in
// between that replaces either key by its own makes another code. The code has 40
// bits, and each guess takes some milliseconds of work. That is enough only if the
// node got the gateway's key from elsewhere than that server, with its address or by
// hand: with both keys free, two that match are found within hours.
//
// # Setup tokens
//
// A token ([Registry.NewToken]) is an approval in advance: a machine that has it is
// paired, once or as many times as the token says, until it expires. The node sends a
// [Proof], an HMAC-SHA-256 over its own key and the gateway's. An attacker who reads
// or replays that can pair nothing but that very key. Only the SHA-256 of the token is
// kept, which is the key of the HMAC: a user who can read the file could use a token,
// but not tell what it is. A node is paired and a use of the token taken in one write.
// A key that was revoked cannot use a token; it has to be approved.
//
// # Files
//
// The directory has nodes.jsonl and nodes.lock, both 0600. The lock is that of
// the one [Registry] that may have the directory open. The other file is written
// anew with each change, to another name, and put into its place in one step:
// after a kill at any moment it is the one from before or the one from after.
// Each line is
//
//	{"crc32c":"1b2c3d4e","entry":{...}}
//
// with the checksum of its entry. The first entry is
// {"version":1,"nodes":N,"tokens":M,"rejected":K}, without the last if there are
// none; N nodes and M tokens follow, each in the order of their ids, and K keys that
// were rejected, in their own. A file that is not exactly as this package would write
// it is not read: [Open] says in which line and at which byte, and there are no nodes.
// A file that others than its owner can read or write is refused as well.
//
// # Several gateways
//
// Gateways that share a message server share a registry as well: a [Bucket], in which
// the text of the file is an entry of package natskv: that of the Nth change is
// head.N. A gateway that changes something makes the next entry; if another gateway
// has made it, it repeats its change on that one. Every gateway watches. So an approval
// at one makes a node at all, the first answer counts, a rejection is one everywhere,
// a use of a token is taken once, and a revocation counts at once where it is made and
// elsewhere when it is heard, some milliseconds later. A gateway that cannot reach the
// bucket goes by what it knew: nodes stay nodes, and nothing can be approved. A
// revocation that cannot be written counts where it was made, and is written later.
// While the servers elect a leader a change waits, for up to 15 s. Requests are in the
// memory of each gateway, which all hear what machines ask.
//
// A gateway that starts reads the registry from the server that leads before it does
// anything, so that it takes no node for unknown that another has approved.
//
// All gateways have the same key (gateway.seed, which an operator copies from one
// to the other, and which no message server ever has): they are one gateway to
// nodes, with one line to join, one code to compare, and one key that signs
// commands. With keys of their own each would have as much power over every node,
// and every node would have to be told of each by some other that it believes; all
// that would be gained is that one gateway could be shut out without pairing the
// nodes anew. What tells the gateways apart is the life of each, to which nodes
// answer.
//
// The message server is not trusted with the registry either. What is kept is
// signed with the gateways' key, and counted: who can write there can withhold it,
// but can neither make a node nor have a gateway take what it has seen replaced.
// It can show an old list to a gateway that starts. The last 16 texts are kept: a
// gateway that has slept for longer than it took to write them would otherwise make
// one anew in a place that is long past. See package natskv for what the servers have
// to be.
//
// # When it counts
//
// [Registry.Authorize] takes no lock and reads no file. Approval counts when it
// is on disk; revocation counts at once, and is an error until it is on disk.
//
// What this package does not do: messages (package fabric), connections (package
// broker, which is told of changes by [Options].Changed) and presence.
package pairing
