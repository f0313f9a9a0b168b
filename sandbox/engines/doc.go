// Package engines chooses the container engine of this machine, and opens a
// sandbox on it in one call:
//
//	box, err := engines.OpenSandbox(ctx, sandbox.Config{})
//
// It links the clients of every engine. A program that is for one engine alone,
// and wants to be smaller, uses that engine's package (sandbox/docker,
// sandbox/containerd) and sandbox.New.
package engines
