// Package wire is what a gateway and a warden say to each other: one message
// type, its encoding, and two ways to carry it.
//
// Over a Unix SOCK_SEQPACKET socket ([Packets], Linux) messages travel with file
// descriptors: commands write straight into the gateway's pipes. Over a byte
// stream ([Frames]: a container's attached stdio, later a node's connection)
// output and input travel as messages with absolute offsets, acknowledged by
// the receiver, so that nothing is lost or repeated when the stream is cut.
//
// Both ends may be hostile to each other: every size is bounded, every parser
// is fuzzed, unknown fields are skipped and unknown types answered with an
// error. The package knows nothing of processes or executors.
//
// # Encoding
//
// A message is encoded as Protocol Buffers would encode it; wire.proto in this
// directory is the description. It is written out by hand over protowire,
// because the generated code and its runtime would be larger than the whole
// warden.
package wire
