// Package sandbox runs commands in a container: a corral.Executor whose
// commands see a hardened container's file system and nothing of this machine.
//
// One Executor is one sandbox: a container that is made when the first command
// needs it, kept for the next, and made anew when its configuration changed.
// Its PID 1 is a warden, mounted read-only from outside the image, to which
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
// What is in a container is hostile: nothing it sends is trusted, and its
// warden can at worst lie about that container's own commands.
//
// Engines are behind the interface [Engine]; package sandbox/docker is one.
package sandbox
