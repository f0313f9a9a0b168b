// Package pairing keeps the list of nodes: the approved keys, the keys that ask to be
// approved, and the setup tokens that stand for an approval. It only keeps state.
// Packages that speak with nodes query it ([Registry.Authorize]) and report messages to
// it ([Registry.Ask], [Registry.Redeem], [Registry.Seen]); operators answer
// ([Registry.Approve], [Registry.Reject], [Registry.Revoke]).
//
// # Nodes
//
// A node is a key: the public half of an nkey for users. With it the node signs the
// nonce of every connection. Its id is derived from the key ([ID]) and never changes:
// 20 characters of 0-9 and a-z without i, l, o and u. Its name is for people. The node
// suggests one. The gateway reduces it to 1 to 63 of the characters a-z, 0-9, '.', '_'
// and '-', and makes it unique with a number at its end. No name looks like an address,
// an id, or the beginning of another node's id, since people choose nodes by any of
// these. A revoked node has no claim to its name.
//
// A key that was paired before is the same node, however often it asks. A new key is
// another node, whatever name it has: it has to be approved, and its request says which
// node already has the wanted name ([Request].SameName).
//
// Addresses of a node are the ones that the gateway saw. The addresses that a node
// claims are shown to the approver, and not used otherwise.
//
// # Requests
//
// A key asks, and waits for an answer for at most [RequestLimit]; asking again begins
// that time anew. The first answer counts. A rejected key gets the rejection for the
// same time, and may ask again after that. At most 256 keys wait at a time, and 8 from
// one address (with IPv6, from one /64). Requests are kept in memory alone, so a
// machine that is not approved writes nothing to disk. A node asks again when it
// connects to the next life of a gateway.
//
// Both sides show the same [Code], which is derived from the keys of the node and of
// the gateway. The operator compares the two before approving. A message server in
// between that replaces a key by its own makes another code. The code has 40 bits, and
// each guess takes some milliseconds of work. That is enough only if the node got the
// gateway's key on another way than through that server, with its address or by hand:
// an attacker who can choose both keys finds two matching codes within hours.
//
// # Setup tokens
//
// A token ([Registry.NewToken]) is an approval in advance: a machine that has it is
// paired, as often as the token allows, until it expires. The node sends a [Proof], an
// HMAC-SHA-256 over its own key and the gateway's. An attacker who reads or replays the
// proof can pair nothing but that very key. The registry keeps only the SHA-256 of the
// token, which is the key of the HMAC. A user who can read the file could use a token,
// but not find out its text. Pairing the node and counting the use of the token are one
// write. A revoked key cannot use a token; it has to be approved.
//
// # Files
//
// The directory has nodes.jsonl and nodes.lock, both 0600. The lock ensures that only
// one [Registry] has the directory open. Each change writes nodes.jsonl anew, under
// another name, and renames it in one step: after a kill at any moment it is the old
// file or the new one. Each line is
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
// Gateways that share a message server also share a registry: a [Bucket], in which the
// text of the file is an entry of package natskv. The text of the Nth change is head.N.
// A gateway that changes something makes the next entry. If another gateway made it
// first, the gateway repeats its change on that entry. Every gateway watches. So an
// approval at one gateway makes a node at all, the first answer counts, a rejection is
// valid everywhere, and a use of a token is counted once. A revocation counts at once
// where it is made, and elsewhere some milliseconds later. A gateway that cannot reach
// the bucket uses its last state: nodes stay nodes, and nothing can be approved. A
// revocation that cannot be written counts where it was made, and is written later.
// While the servers elect a leader a change waits, for up to 15 s. Requests are in the
// memory of each gateway; all gateways receive the asks of machines.
//
// A gateway that starts first reads the registry from the leading server. So it knows
// every node that another gateway has approved.
//
// All gateways have the same key (gateway.seed, which an operator copies from one to
// the other, and which no message server ever has). To nodes they are one gateway, with
// one line to join, one code to compare, and one key that signs commands. With keys of
// their own each would have as much power over every node, and something that nodes
// trust would have to tell them about each gateway. The only gain would be that one
// gateway could be shut out without pairing the nodes anew. Nodes distinguish the
// gateways by the life to which they answer.
//
// The message server is not trusted with the registry either. Entries are signed with
// the gateways' key, and numbered. An attacker who can write there can withhold them,
// but can neither make a node nor make a gateway go back to an older list. It can show
// an old list to a gateway that starts. The last 16 texts are kept: otherwise a gateway
// that slept for a long time could make an entry again under a number that was purged.
// See package natskv for the requirements on the servers.
//
// # When it counts
//
// [Registry.Authorize] takes no lock and reads no file. Approval counts when it
// is on disk; revocation counts at once, and is an error until it is on disk.
//
// This package does not do messages (package fabric), connections (package broker,
// which [Options].Changed informs of changes) or presence.
package pairing
