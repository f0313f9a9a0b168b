package fabric

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// measure says of this machine what can be read: Average is that of all CPUs together.
func measure(l *Load) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		const one = 1 << 16                                 // SI_LOAD_SHIFT of sysinfo(2)
		l.Average = int(uint64(info.Loads[0]) * 1000 / one) //nolint:unconvert // it is smaller on some machines
		l.Processes = int(info.Procs)
		l.Memory = int64(uint64(info.Totalram) * uint64(info.Unit)) //nolint:unconvert // as above
		if free := availableMemory(); free > 0 {
			l.MemoryUsed = l.Memory - free
		}
	}
	var root unix.Statfs_t
	if unix.Statfs("/", &root) == nil {
		block := uint64(root.Bsize) //nolint:unconvert // as above
		l.Disk, l.DiskUsed = int64(root.Blocks*block), int64((root.Blocks-root.Bfree)*block)
	}
}

// availableMemory is what programs could get, in bytes; 0 if that is not known.
func availableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("MemAvailable:"))
	var kib int64
	if _, err := fmt.Fscan(bytes.NewReader(rest), &kib); err != nil {
		return 0
	}
	return kib << 10
}
