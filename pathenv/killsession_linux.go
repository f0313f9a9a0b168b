package pathenv

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// killSession kills the process group and the session that leader leads. The
// leader must not have been reaped.
//
// Interactive job control gives children groups of their own, so the session
// is searched until a search finds nobody alive: a process may fork between
// being found and being killed. The bound is for a fork bomb.
func killSession(leader int) {
	for range 100 {
		syscall.Kill(-leader, syscall.SIGKILL)
		members := sessionMembers(leader)
		if len(members) == 0 {
			return
		}
		for _, pid := range members {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// sessionMembers are the living processes of a session.
func sessionMembers(session int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil // the group is all that can be reached then
	}
	defer proc.Close()
	entries, _ := proc.Readdirnames(-1) // what could be read is searched
	var members []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry + "/stat")
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid pgrp session: see proc(5). The name may hold
		// anything, also a parenthesis.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 4 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
			continue
		}
		if sid, err := strconv.Atoi(string(fields[3])); err == nil && sid == session {
			members = append(members, pid)
		}
	}
	return members
}
