package daemon

import "os"

// alive reports whether there is a process of that ID.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return p.Release() == nil
}
