package policy

import "golang.org/x/sys/unix"

// Privileged reports whether executing a file gives privileges to the process.
func (OS) Privileged(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	n, err := unix.Getxattr(path, "security.capability", nil)
	return st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || err == nil && n > 0
}
