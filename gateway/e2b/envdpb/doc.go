// Package envdpb has the messages of E2B's services process.Process and
// filesystem.Filesystem, generated from the two .proto files beside it.
package envdpb
