// Package sandbox runs commands in a container: a corral.Executor whose
// commands see a hardened container's file system and nothing of this machine.
//
// One Executor is one sandbox: a container that is made when the first command
// needs it, and kept for the next. When its configuration has changed, the next
// command gets a new container; those that run finish in the old one, which is
// removed after the last of them. The sandbox's records and its private workspace
// are its own, whichever container it has.
//
// PID 1 of a container is a warden, mounted read-only from outside the image, to which
// the gateway speaks in one of three ways ([Driver]):
//
//   - fds: over a Unix socket in a directory that is mounted read-only, with
//     descriptors passed. A command then costs what a local process costs.
//   - frames: in messages over the container's attached standard streams, where
//     no socket reaches the inside: gVisor, an engine on another machine.
//   - exec: through the engine's own exec API, for images in which no warden
//     can run. It is slow, cannot signal or find commands again, and says so.
//
// Commands run in a login shell (sh -lc), without privileges, without a
// network, on a read-only root; see [Config] for what can be chosen. The
// environment of this machine is not inherited.
//
// What a sandbox has is in the state directory (store.go says what), written
// before it is made and removed after it: a crash at any moment leaves nothing
// that [Sweep] does not find.
//
// What is in a container is hostile: nothing it sends is trusted, and its
// warden can at worst lie about that container's own commands.
//
// What a sandbox is not given is decided by package boundary, before anything is
// made; what it may ask the kernel for by package seccomp. What it may use is
// limited, see [Config]. A private workspace is limited by being a file system
// of its own (package internal/diskimage), or in memory; a directory of this
// machine that is given as the workspace is not.
//
// Engines are behind an interface, engine.Engine; package sandbox/docker is one.
package sandbox
