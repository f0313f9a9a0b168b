package docker

import (
	"github.com/docker/docker/api/types/container"
	units "github.com/docker/go-units"
	"golang.org/x/sys/unix"
)

// podmanRaises is to what root's Podman raises the limits of open files and of
// processes where none are given. It has lowered its own limit of processes to that.
const (
	podmanRaises    = 1 << 20
	podmanProcesses = 1 << 15
)

// keepLimits has Podman leave limits as they are that it would raise, and may
// not: it would fail. They are those of this machine, which are taken for the
// ones of this process.
func keepLimits(host *container.HostConfig) {
	for name, resource := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil || l.Max >= podmanRaises || has(host.Ulimits, name) {
			continue
		}
		limit := int64(l.Max)
		if resource == unix.RLIMIT_NPROC {
			limit = min(limit, podmanProcesses)
		}
		host.Ulimits = append(host.Ulimits, &units.Ulimit{Name: name, Soft: limit, Hard: limit})
	}
}

func has(list []*units.Ulimit, name string) bool {
	for _, l := range list {
		if l.Name == name {
			return true
		}
	}
	return false
}
