// Package testnet is a network for tests: hosts that are network namespaces of
// this machine, and between them a wire; a test says how slow, lossy or
// cut it is. Real programs run on the hosts, and only their packets are meddled
// with.
//
// The wire is in this program: each host has a TUN device, and what it sends is
// read here, kept for as long as the wire is slow, and written to the device of
// the host that it is for. So it needs no queueing discipline of the kernel,
// which many kernels come without, but root and /dev/net/tun.
//
// Beside it are ports of loopback that nobody has.
package testnet
