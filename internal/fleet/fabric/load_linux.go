package fabric

import "golang.org/x/sys/unix"

// loadAverage is the load average of the last minute, in thousandths; 0 if it cannot be
// read.
func loadAverage() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	const one = 1 << 16                            // SI_LOAD_SHIFT of sysinfo(2)
	return int(uint64(info.Loads[0]) * 1000 / one) //nolint:unconvert // it is smaller on some machines
}
