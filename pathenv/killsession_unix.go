//go:build unix && !linux

package pathenv

import "syscall"

// killSession kills the process group that leader leads. There is no portable
// way to find the rest of its session; a profile is not interactive, so its
// children share the group unless they went out of their way to leave it.
func killSession(leader int) { syscall.Kill(-leader, syscall.SIGKILL) }
