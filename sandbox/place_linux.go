package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// placeOf is which directory a state directory is, wherever one looks at it from;
// that of an ephemeral sandbox may be gone, and is known by the one that it is in.
func placeOf(dir string, ephemeral bool) place {
	if ephemeral {
		dir = filepath.Dir(dir)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return place{}
	}
	mounts, err := os.Readlink("/proc/thread-self/ns/mnt") // not the first thread, which may be in a container; namespaces(7): mnt:[4026531840]
	if err != nil {
		return place{}
	}
	machine, err := os.ReadFile("/etc/machine-id") // machine-id(5)
	if err != nil {
		machine = nil // containers have none
	}
	p := place{machine: strings.TrimSpace(string(machine)), boot: strings.TrimSpace(string(boot)), mounts: mounts}
	var st unix.Stat_t
	if unix.Stat(dir, &st) == nil {
		p.inode = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	return p
}
