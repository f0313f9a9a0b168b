//go:build unix && !linux

package pathenv

import "syscall"

// killSession kills the process group that leader leads. There is no portable
// way to find the rest of its session. A profile is not interactive, so its
// children are in the group unless they left it on purpose.
func killSession(leader int) { syscall.Kill(-leader, syscall.SIGKILL) }
