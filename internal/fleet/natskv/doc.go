// Package natskv keeps the data that several gateways share: a key-value bucket of
// JetStream at their message server. Entries are never overwritten: [Bucket.Create]
// makes an entry only under a key that was never used. To replace an entry, a gateway
// makes the next one, under a key with the next number. If several gateways try at
// once, one succeeds.
//
// Servers check exactly this case reliably. In a cluster, version 2.9 compares the
// revision that a write replaces when the servers propose the write, and not when they
// carry it out. So two simultaneous writes can both be reported as successful. Whether
// a key has no entry yet is checked when the write is carried out.
//
// Entries are read from the leading server, and never from one that may be behind:
// after Create has returned, all gateways see the entry.
//
// # Trust
//
// The message server is not trusted. An entry is signed with the gateways' key, for its
// bucket and its key. A client that can write there can withhold entries, and can hide
// the last ones from a gateway that starts. It can neither make an entry nor move one
// to another key. Reading an unsigned entry is an ErrDenied.
//
// # On the server
//
// The value of a key is 64 bytes of signature, a line of JSON,
//
//	{"version":1,"size":BYTES,"sha256":"…","nonce":"…"}
//
// and then the text. A text of more than 32 KiB is in keys of its own,
// part.KEY.PARTS.0, part.KEY.PARTS.1 and so on, and the line has "parts":"PARTS":
// servers need not accept messages of more than 64 KiB. The bucket is on the servers'
// disks (one in memory is refused): on three servers of a cluster, one of them may
// be away, or on a single server. Set sync_interval: always on them, which nats-server
// has since version 2.10. Otherwise a server that loses power forgets the writes of the
// last two minutes. A client cannot see that setting.
package natskv
