//go:build e2e && linux

package escape_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A freezer stops and continues all that runs in a container, without asking
// anything in it.
type freezer struct{ file, stop, cont string }

// newFreezer is that of the container of which pid is the init.
func newFreezer(t *testing.T, pid int) freezer {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "freezer":
			return freezer{filepath.Join("/sys/fs/cgroup/freezer", f[2], "freezer.state"), "FROZEN", "THAWED"}
		case f[1] == "" && unified():
			return freezer{filepath.Join("/sys/fs/cgroup", f[2], "cgroup.freeze"), "1", "0"}
		}
	}
	t.Fatalf("process %d has no freezer: %s", pid, b)
	return freezer{}
}

// unified reports whether the machine has cgroups of version 2 alone.
func unified() bool {
	var st unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// set fails if the container is gone, which some bombs bring about.
func (f freezer) set(state string) error { return os.WriteFile(f.file, []byte(state), 0o644) }

func (f freezer) freeze() error { return f.set(f.stop) }
func (f freezer) thaw() error   { return f.set(f.cont) }
