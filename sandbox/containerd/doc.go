// Package containerd is containerd as a engine.Engine, without Docker.
//
// A container is an image's snapshot, a specification of opencontainers'
// runtime-spec and a task under the runc shim (io.containerd.runc.v2), which
// goes on when this program or containerd is restarted. Its specification is
// hardened like the containers of package sandbox/docker: all capabilities
// dropped, no new privileges, a seccomp and where the machine has it an AppArmor
// profile, a read-only root, private namespaces with a network of loopback only,
// no devices but the usual, limits of memory, processors and processes, and no
// core dumps.
//
// Everything is in a namespace of its own, so that images of others are not
// seen: `ctr -n corral images import` brings one in, beside [Engine.Images].
//
// Standard streams (the driver frames) are named pipes in a directory of ours.
// The shim holds both ends of each, so that neither end of file nor a broken pipe
// comes from the death of this program; what the container wrote meanwhile, up
// to the size of the pipes on its way, waits for the next [Engine.Attach].
//
// The engine has to be on this machine, and reaching it takes root. It has no
// exec API here (engine.ExecEngine): images in which no warden runs need Docker.
package containerd
