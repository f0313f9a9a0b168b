//go:build linux

package warden

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/landlock"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// proc is a command that was started and not forgotten. The supervisor's mu
// guards what changes.
type proc struct {
	id      string
	tag     []byte
	flags   uint64 // of wire.Start
	pid     int    // 0: it was never made, because the program could not be executed
	started uint64
	ticks   uint64 // not after its start
	timeout time.Duration
	grace   time.Duration
	mark    uint64 // see newMark
	cgroup  string // directory, or empty
	ledger  *ledger
	slot    int64 // of ledger; noSlot: it is not noted
	adopted bool  // it was started by a supervisor that was killed

	oomBefore  uint64 // the count when it was made, if it is counted
	oomCounted bool

	domain     *confine.Domain // nil: there is nothing to enforce
	jail       *landlock.Jail
	enforced   uint64 // see wire.Message
	unenforced string // why not all of the domain is in force
	login      string // why it is not spared its login profile; see wire.Message

	timer    *time.Timer
	timedOut bool
	killed   bool          // SIGKILL was sent to it through us
	reaped   bool          // pid may be another process's by now
	exited   *wire.Message // nil while it runs
	owner    *client       // who hears of its end

	// What is kept for a gateway that attaches. -1: not there.
	master  int    // the terminal
	stdin   int    // write end
	outputs []int  // read ends: one or two
	relay   [2]int // read end, write end
	streams *streams
	// What the process writes into is kept open until it has ended, so that a
	// reader hears of the end of its output and of its own end at the same time.
	writers []int
	// written are the pipes of writers if the ends of a pipe do not tell that they are
	// of one, as within gVisor (oneWay).
	written []pipeID
	oneWay  bool
}

// noteWriters notes what writers are, while they are open.
func (p *proc) noteWriters() {
	if !p.oneWay {
		return
	}
	for _, fd := range p.writers {
		if id, ok := identify(fd); ok {
			p.written = append(p.written, id)
		}
	}
}

func (p *proc) item() *wire.Message {
	m := &wire.Message{Type: wire.Item, ID: p.id, PID: uint64(p.pid), Flags: p.flags, StartedAt: p.started, Tag: p.tag,
		Enforced: p.enforced, Text: p.unenforced, Login: p.login}
	if p.relay[0] >= 0 {
		m.Flags |= wire.FlagRelay
	}
	if p.exited != nil {
		m.Flags |= wire.FlagEnded
		m.ExitCode, m.Signal, m.Reason, m.EndedAt, m.Args = p.exited.ExitCode, p.exited.Signal, p.exited.Reason, p.exited.EndedAt, p.exited.Args
		m.Refused = p.exited.Refused
		if p.exited.Text != "" {
			m.Text = p.exited.Text
		}
	}
	return m
}

// kept is what Attach hands out, in this order: the terminal, or standard
// input (FlagStdin) and the outputs; then the relay (FlagRelay).
func (p *proc) kept() (fds []int) {
	switch {
	case p.master >= 0:
		fds = append(fds, p.master)
	default:
		if p.stdin >= 0 {
			fds = append(fds, p.stdin)
		}
		fds = append(fds, p.outputs...)
	}
	if p.relay[0] >= 0 {
		fds = append(fds, p.relay[:]...)
	}
	return fds
}

// release closes what is kept. With drain, outputs that a descendant still
// has open are read and thrown away instead, so that it neither blocks nor
// dies of a broken pipe.
func (p *proc) release(drain bool) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.closeWriters()
	if p.streams != nil {
		p.streams.release(drain)
		return
	}
	for _, fd := range []int{p.master, p.stdin, p.relay[0], p.relay[1]} {
		if fd >= 0 {
			closeFDs([]int{fd})
		}
	}
	p.master, p.stdin, p.relay = -1, -1, [2]int{-1, -1}
	for _, fd := range p.outputs {
		if drain && writersLeft(fd) {
			go discard(fd)
			continue
		}
		closeFDs([]int{fd})
	}
	p.outputs = nil
}

// unnote takes it out of the ledger.
func (p *proc) unnote() {
	if p.ledger != nil {
		p.ledger.clear(p.slot)
		p.slot = noSlot
	}
}

func (p *proc) closeWriters() {
	closeFDs(p.writers)
	p.writers = nil
}

// writersLeft tells whether anybody can still write into the pipe.
func writersLeft(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	for err == unix.EINTR {
		n, err = unix.Poll(poll, 0)
	}
	return err == nil && (n == 0 || poll[0].Revents&unix.POLLHUP == 0)
}

// discard reads a pipe until no process can write into it any more.
func discard(fd int) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return
	}
	f := os.NewFile(uintptr(fd), "discarded output")
	defer f.Close()
	buf := make([]byte, 4096)
	for {
		if _, err := f.Read(buf); err != nil {
			return
		}
	}
}
