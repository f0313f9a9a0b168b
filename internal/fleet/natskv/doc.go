// Package natskv is where several gateways keep what they share: a key-value bucket
// of JetStream at their message server, in which nothing is ever overwritten. An entry
// is made under a key that was never used, or not at all ([Bucket.Create]). A gateway
// that wants to replace an entry makes the one after it, under a key with the next
// number in it: if several do that at once, one succeeds.
//
// That is what servers compare exactly. Where several of a cluster keep a bucket,
// those of version 2.9 look at the revision that a write is to replace when they
// propose it to each other, and not when they make it, so that of two at once both
// are said to be made. Whether there is no entry yet they look at when they make it.
//
// Entries are read from the server that leads, and never from one that may be
// behind: after Create has returned, all gateways read the entry.
//
// # Trust
//
// The message server is not trusted. An entry is signed with the gateways' key, for
// its bucket and its key: who can write there can withhold entries, and have a
// gateway that starts believe that the last ones were never made, but can neither make
// one nor move one to another key. Reading what is not signed is an ErrDenied.
//
// # On the server
//
// The value of a key is 64 bytes of signature, a line of JSON,
//
//	{"version":1,"size":BYTES,"sha256":"…","nonce":"…"}
//
// and then the text. One of more than 32 KiB is in keys of its own,
// part.KEY.PARTS.0, part.KEY.PARTS.1 and so on, where the line has "parts":"PARTS":
// servers need take no larger messages than 64 KiB. The bucket is on the servers' disks (one in memory is
// refused): on three of a cluster, where any one may be away, or on the one there
// is. They have to be set to sync_interval: always, which nats-server knows from
// version 2.10 on: otherwise a server that loses its power forgets what it was told
// in the last two minutes. A client cannot see that.
package natskv
