//go:build linux

package warden

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An oomCounter says how many processes of this process's cgroup the kernel has
// killed for want of memory: its limit's, or the machine's. What a command's
// own tree is, the kernel does not count. The file is read for every command,
// and stays open for that.
type oomCounter struct {
	file *os.File // nil: it is not counted
	fd   int
}

// findOOMCounter looks for the file. In a container the cgroup's own directory
// may be mounted where the hierarchy's would be.
func findOOMCounter() oomCounter {
	v2, v1 := "/", "/"
	if b, err := readFile("/proc/self/cgroup", 64<<10); err == nil {
		v2, v1 = cgroupPaths(b)
	}
	for _, name := range []string{
		"/sys/fs/cgroup/memory" + v1 + "/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control",
		"/sys/fs/cgroup" + v2 + "/memory.events", "/sys/fs/cgroup/memory.events",
	} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		c := oomCounter{f, int(f.Fd())}
		if _, ok := c.read(); ok {
			return c
		}
		c.close()
	}
	return oomCounter{}
}

func (c oomCounter) close() {
	if c.file != nil {
		c.file.Close() // nothing was written
	}
}

// cgroupPaths are this process's cgroups in the only hierarchy of version 2, and
// in that of version 1 that has the memory.
func cgroupPaths(b []byte) (v2, v1 string) {
	v2, v1 = "/", "/"
	for line := range strings.Lines(string(b)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok || !strings.HasPrefix(path, "/") || strings.Contains(path, "/../"):
		case controllers == "":
			v2 = path
		case strings.Contains(","+controllers+",", ",memory,"):
			v1 = path
		}
	}
	return v2, v1
}

func (c oomCounter) read() (n uint64, ok bool) {
	if c.file == nil {
		return 0, false
	}
	var b [4096]byte
	size, err := unix.Pread(c.fd, b[:], 0) // once: all of it is there
	if err != nil {
		return 0, false
	}
	return parseOOM(b[:size])
}

// parseOOM reads the line "oom_kill N", of memory.oom_control or memory.events.
func parseOOM(b []byte) (n uint64, ok bool) {
	for line := range bytes.Lines(b) {
		if value, found := bytes.CutPrefix(line, []byte("oom_kill ")); found {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// killedForMemory reports whether a command ended because memory ran out: by a
// SIGKILL that was not sent through us, its own or a shell's report of one, while the
// kernel's count has grown. The kernel counts before it kills. It does not say which
// process it killed, so a command that kills itself just after another one ran out of
// memory is reported wrongly.
func (s *Supervisor) killedForMemory(p *proc, status syscall.WaitStatus) bool {
	const shellSays = 128 + int(unix.SIGKILL)
	killed := status.Signaled() && status.Signal() == unix.SIGKILL || status.Exited() && status.ExitStatus() == shellSays
	if !killed {
		return false
	}
	n, ok := s.oom.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A kill is of one command: who else is killed later was killed otherwise.
	known := max(p.oomBefore, s.oomKnown)
	if p.killed || p.timedOut || !ok || !p.oomCounted || n <= known {
		return false
	}
	s.oomKnown = known + 1
	return true
}

// When memory runs out commands go first, before their warden and before
// everything else: oomScore is what they have as oom_score_adj.
//
// A process has its parent's at first, and the kernel may look for one to kill at
// any moment, so while the warden forks it has less, which puts it behind every
// command by a tenth of the memory that there is.
const oomScore, oomForking = "1000", "900"

// openOOMScore opens what says how ready this process is to be killed. It is
// called while the process can be looked at: afterwards the file is root's.
func openOOMScore() (f *os.File, own []byte) {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil, nil // commands are then as ready as the warden
	}
	own = make([]byte, 16)
	n, err := f.ReadAt(own, 0)
	own = bytes.TrimSpace(own[:n])
	_, _ = f.WriteAt([]byte(oomForking), 0) // to see whether anything comes of it
	score, _ := readFile("/proc/self/oom_score", 16)
	// Where it cannot be set back it is left alone, and where the kernel does not look
	// at it, as that of gVisor.
	if _, werr := f.WriteAt(own, 0); len(own) == 0 || err != nil && n == 0 || werr != nil || string(bytes.TrimSpace(score)) == "0" {
		f.Close()
		return nil, nil
	}
	return f, own
}

// offer makes what is forked next readier to be killed than this process is else. The
// first of those that fork at a time does so.
func (s *Supervisor) offer() {
	s.offers.Lock()
	defer s.offers.Unlock()
	if s.offers.n++; s.offers.n == 1 && s.opts.OOMScore != nil {
		_, _ = s.opts.OOMScore.WriteAt([]byte(oomForking), 0) // it was possible at the start
	}
}

// offered undoes offer, when the last of them has forked.
func (s *Supervisor) offered() {
	s.offers.Lock()
	defer s.offers.Unlock()
	if s.offers.n--; s.offers.n == 0 && s.opts.OOMScore != nil {
		_, _ = s.opts.OOMScore.WriteAt(s.opts.OwnScore, 0)
	}
}

// setReadiest makes a command the readiest to be killed. A moment after it was
// executed it still counts as this program, whose files in /proc are root's, and so
// does one that has ended: it is tried again after a while, and nobody waits for
// it. p's number must not become another's meanwhile.
func (s *Supervisor) setReadiest(p *proc, again time.Duration) {
	if s.opts.OOMScore == nil {
		return
	}
	err := writeTo("/proc/"+strconv.Itoa(p.pid)+"/oom_score_adj", oomScore)
	if !errors.Is(err, unix.EACCES) || again > time.Second {
		return // it has it, or is none of ours and keeps what it has
	}
	time.AfterFunc(again, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !p.reaped {
			s.setReadiest(p, 2*again)
		}
	})
}

// writeTo writes into a file of /proc. Package os would ask first whether the file can
// be waited for, by five system calls.
func writeTo(name, text string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}
