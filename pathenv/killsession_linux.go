package pathenv

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
)

// killSession kills the process group and the session that leader leads. The
// leader must not have been reaped.
//
// Interactive job control gives children groups of their own, so the session is
// searched until no process is found alive: one may fork between being found and
// being killed. The bound is for a fork bomb.
func killSession(leader int) {
	for range 100 {
		syscall.Kill(-leader, syscall.SIGKILL)
		members := sessionMembers(leader)
		if len(members) == 0 {
			return
		}
		for _, pid := range members {
			killMember(pid, leader)
		}
		time.Sleep(time.Millisecond)
	}
}

// killMember kills a process if it is still a member of a session. It does not kill
// another process that has got its PID meanwhile. Linux before 5.3 has no pidfd: there the
// session is checked right before the signal.
func killMember(pid, session int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if !isMember(strconv.Itoa(pid), session) {
		return
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	if err == unix.ENOSYS || err == unix.EPERM {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// sessionMembers are the living processes of a session.
func sessionMembers(session int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil // then only the group is killed
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1) // after an error, the entries read so far
	var members []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry)
		if err != nil {
			continue
		}
		if isMember(entry, session) {
			members = append(members, pid)
		}
	}
	return members
}

// isMember reports whether a process is alive and in a session.
func isMember(pid string, session int) bool {
	s, err := procfs.Read("/proc/" + pid)
	return err == nil && !s.Ended() && s.Session == session
}
