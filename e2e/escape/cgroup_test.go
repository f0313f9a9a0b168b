//go:build e2e && linux

package escape_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup is that of a container: it stops and continues all that runs in it,
// without asking anything there, and tells what it took.
type cgroup struct {
	freezer, stop, cont string
	usage               string // file with the processor time, in nanoseconds or as cpu.stat
}

// cgroupOf is that of the container whose init is pid.
func cgroupOf(t *testing.T, pid int) cgroup {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	must(t, err)
	var c cgroup
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch in := "," + f[1] + ","; {
		case strings.Contains(in, ",freezer,"):
			c.freezer, c.stop, c.cont = filepath.Join("/sys/fs/cgroup/freezer", f[2], "freezer.state"), "FROZEN", "THAWED"
		case strings.Contains(in, ",cpuacct,"):
			c.usage = filepath.Join("/sys/fs/cgroup/cpuacct", f[2], "cpuacct.usage")
		case f[1] == "" && unified():
			dir := filepath.Join("/sys/fs/cgroup", f[2])
			c = cgroup{filepath.Join(dir, "cgroup.freeze"), "1", "0", filepath.Join(dir, "cpu.stat")}
		}
	}
	if c.freezer == "" || c.usage == "" {
		t.Fatalf("process %d cannot be frozen, or its processor time is not counted: %s", pid, b)
	}
	return c
}

// unified reports whether the machine has cgroups of version 2 alone.
func unified() bool {
	var st unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

func (c cgroup) freeze(t *testing.T) { c.set(t, c.stop) }
func (c cgroup) thaw(t *testing.T)   { c.set(t, c.cont) }

// set does nothing if the container is gone, which some bombs bring about.
func (c cgroup) set(t *testing.T, state string) {
	t.Helper()
	if err := os.WriteFile(c.freezer, []byte(state), 0o644); !gone(err) {
		must(t, err)
	}
}

// taken is the processor time that all in it took so far; false if it is gone.
func (c cgroup) taken(t *testing.T) (time.Duration, bool) {
	t.Helper()
	b, err := os.ReadFile(c.usage)
	if gone(err) {
		return 0, false
	}
	must(t, err)
	unit := time.Nanosecond
	text := strings.TrimSpace(string(b))
	if _, rest, ok := strings.Cut(text, "usage_usec "); ok {
		unit = time.Microsecond
		text, _, _ = strings.Cut(rest, "\n")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return time.Duration(n) * unit, true
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
