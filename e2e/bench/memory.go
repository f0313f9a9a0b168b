//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// memory is what a warden that is idle needs, in MB.
type memory struct {
	Place    string  `json:"place"`
	Resident float64 `json:"resident"` // VmRSS: with the pages of its program file
	Private  float64 `json:"private"`  // RssAnon: without
	// Sandbox is all that is charged to the container: its warden, and what
	// commands left in the page cache. 0: not known, or no container.
	Sandbox float64 `json:"sandbox,omitempty"`
}

const (
	busyJobs   = 200             // before it is idle, so that its heap has grown
	settleTime = 3 * time.Second // and it has given memory back, which it does after one to two
)

func (s *site) measureMemory(ctx context.Context, jobs int) ([]memory, error) {
	var all []memory
	for _, name := range []string{boxFrames, boxEngine} { // whose files are memory
		if _, err := s.places[name].run(ctx, job{shell: "rm -f " + copiesPrefix + "*"}); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{boxFDs, boxFrames, hostWarden} {
		for range jobs {
			if _, err := s.places[name].run(ctx, job{shell: "true"}); err != nil {
				return nil, err
			}
		}
	}
	time.Sleep(settleTime)
	for _, name := range []string{boxFDs, boxFrames, hostWarden} {
		pid := s.wardens[name]
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			return nil, fmt.Errorf("cannot see the memory of the warden of %s: %w", name, err)
		}
		m := memory{Place: name, Resident: statusMB(status, "VmRSS"), Private: statusMB(status, "RssAnon")}
		if name != hostWarden {
			m.Sandbox = cgroupMB(pid)
		}
		all = append(all, m)
	}
	return all, nil
}

// statusMB reads a line of /proc/PID/status, which is in KiB.
func statusMB(status []byte, field string) float64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+field+":"))
	kib := 0
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0
	}
	return float64(kib) * 1024 / 1e6
}

// cgroupMB is what is charged to a process's memory cgroup; 0 if that cannot be
// read.
func cgroupMB(pid int) float64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) { // ID:CONTROLLERS:PATH
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		file := ""
		switch {
		case f[0] == "0" && f[1] == "":
			file = path.Join("/sys/fs/cgroup", f[2], "memory.current")
		case f[1] == "memory":
			file = path.Join("/sys/fs/cgroup/memory", f[2], "memory.usage_in_bytes")
		default:
			continue
		}
		if text, err := os.ReadFile(file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				return float64(n) / 1e6
			}
		}
	}
	return 0
}
