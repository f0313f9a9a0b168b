// Package procfs reads /proc/PID/stat: the state, parent, group, session and start of a
// process.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
)

// A Stat is what /proc/PID/stat says of a process. See proc_pid_stat(5).
type Stat struct {
	PID                    int
	State                  byte
	Parent, Group, Session int
	TTY                    int // the number of the terminal's device; 0: none
	Flags                  uint64
	Threads                uint64 // 0: it is not said
	// Started is in 1/100 s since the machine started. With PID it tells a process
	// from a later one with the same PID. math.MaxUint64: it is not said.
	Started uint64
}

// Ended reports whether the process has ended and was perhaps not reaped. The state is
// that of its first thread, which can end before others do.
func (s Stat) Ended() bool { return s.State == 'Z' && s.Threads <= 1 || s.State == 'X' }

// Exiting reports whether the process is at its end.
func (s Stat) Exiting() bool {
	const exiting = 4 // PF_EXITING
	return s.Flags&exiting != 0
}

var errMalformed = errors.New("malformed stat of a process")

// Read reads the file stat in dir, which is /proc/PID or /proc/PID/task/TID.
func Read(dir string) (Stat, error) {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Stat{}, err
	}
	return Parse(b)
}

// Parse reads the text of a file stat: "PID (NAME) STATE PPID PGRP SESSION TTY …". NAME
// may hold anything, since the process chooses it. Nothing after it has a parenthesis.
func Parse(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return Stat{}, errMalformed
	}
	f := bytes.Fields(b[end+1:])
	if len(f) < 4 || len(f[0]) != 1 {
		return Stat{}, errMalformed
	}
	s := Stat{State: f[0][0], Started: math.MaxUint64}
	var err error
	if s.PID, err = strconv.Atoi(string(bytes.TrimSpace(b[:open]))); err != nil {
		return Stat{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	for i, to := range []*int{&s.Parent, &s.Group, &s.Session, &s.TTY} {
		if i+1 == len(f) {
			break
		}
		if *to, err = strconv.Atoi(string(f[i+1])); err != nil {
			return Stat{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	for _, x := range []struct {
		field int
		to    *uint64
	}{{6, &s.Flags}, {17, &s.Threads}, {19, &s.Started}} {
		if x.field >= len(f) {
			break
		}
		if *x.to, err = strconv.ParseUint(string(f[x.field]), 10, 64); err != nil {
			return Stat{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	return s, nil
}
