//go:build linux

package containerd

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupRoot is where the machine has its control groups.
const cgroupRoot = "/sys/fs/cgroup"

// cgroup is a container's control group, as seen from the root of each
// hierarchy.
func (e *Engine) cgroup(id string) string { return path.Join("/", e.space, id) }

// oomKills is how many processes the kernel has killed in a control group for
// want of memory. It stays known from the end of a container to its removal.
func oomKills(cgroup string) int {
	for _, file := range []string{
		filepath.Join(cgroupRoot, cgroup, "memory.events"),                // version 2
		filepath.Join(cgroupRoot, "memory", cgroup, "memory.oom_control"), // version 1
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if n, found := strings.CutPrefix(line, "oom_kill "); found {
				kills, _ := strconv.Atoi(strings.TrimSpace(n)) // the kernel's own number
				return kills
			}
		}
	}
	return 0
}
