//go:build linux

package warden

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// stdio is what a process is started with, and what is kept of it.
type stdio struct {
	child   [3]int // descriptors 0, 1, 2 of the process
	master  int
	stdin   int
	outputs []int
	relay   [2]int
	streams *streams
}

// closeChild closes the process's ends, which it has by now, but for writers.
func (io *stdio) closeChild(devnull int) {
	if io.child[0] != devnull && io.child[0] != io.child[1] {
		closeFDs(io.child[:1])
	}
}

// writers are the ends of the pipes that the process writes into, or of its terminal:
// one that no process has open seems to have ended.
func (io *stdio) writers() []int {
	switch {
	case io.child[0] == io.child[1]: // a terminal
		return io.child[:1]
	case io.child[1] == io.child[2]:
		return io.child[1:2]
	}
	return io.child[1:]
}

// newStdio sorts the descriptors that came with wire.Start, which are: for a
// terminal the relay's read and write end; else the process's ends (standard
// input if FlagStdin, standard output, standard error unless FlagMerge), then
// the gateway's, in the same order. Over a byte stream there are none and pipes
// are made here; and none for a terminal that could not be sent. On failure all
// are closed.
func (s *Supervisor) newStdio(c *client, m *wire.Message, fds []int) (*stdio, *fail) {
	tty := m.Flags&wire.FlagTTY != 0
	io := &stdio{child: [3]int{s.devnull, -1, -1}, master: -1, stdin: -1, relay: [2]int{-1, -1}}
	want := 0
	if c.conn.PassesFiles() && !(tty && c.oneWay) {
		want = 2
		if !tty {
			for _, has := range []bool{m.Flags&wire.FlagStdin != 0, m.Flags&wire.FlagMerge == 0} {
				if has {
					want += 2
				}
			}
		}
	}
	if len(fds) != want {
		closeFDs(fds)
		return nil, failf(wire.CodeInvalid, "%d descriptors came with Start, not %d", len(fds), want)
	}
	if tty {
		master, slave, err := openTerminal(m.Rows, m.Cols)
		if err != nil {
			closeFDs(fds)
			return nil, failf(wire.CodeUnavailable, "cannot open a terminal: %v", err)
		}
		io.master, io.child = master, [3]int{slave, slave, slave}
		if want > 0 {
			io.relay = [2]int(fds)
		} else {
			io.streams = newStreams(m.ID, master, []int{master}, true, &s.spare)
			io.master = -1
		}
		return io, nil
	}
	if want == 0 {
		var f *fail
		if fds, f = makePipes(m.Flags); f != nil {
			return nil, f
		}
	}
	ours := fds[len(fds)/2:]
	theirs := fds[:len(fds)/2]
	if m.Flags&wire.FlagStdin != 0 {
		io.child[0], io.stdin = theirs[0], ours[0]
		theirs, ours = theirs[1:], ours[1:]
	}
	io.child[1], io.outputs = theirs[0], ours
	io.child[2] = theirs[len(theirs)-1]
	if want == 0 {
		io.streams = newStreams(m.ID, io.stdin, io.outputs, false, &s.spare)
		io.stdin, io.outputs = -1, nil
	}
	return io, nil
}

// makePipes makes what a gateway would have sent.
func makePipes(flags uint64) ([]int, *fail) {
	var theirs, ours []int
	pipe := func(theirEnd int) error {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		theirs, ours = append(theirs, p[theirEnd]), append(ours, p[1-theirEnd])
		return nil
	}
	ends := []int{1}
	if flags&wire.FlagStdin != 0 {
		ends = []int{0, 1}
	}
	if flags&wire.FlagMerge == 0 {
		ends = append(ends, 1)
	}
	for _, end := range ends {
		if err := pipe(end); err != nil {
			closeFDs(append(theirs, ours...))
			return nil, failf(wire.CodeUnavailable, "cannot make a pipe: %v", err)
		}
	}
	return append(theirs, ours...), nil
}

// openTerminal opens a terminal of this mount namespace's devpts.
func openTerminal(rows, cols uint64) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, err
	}
	fail := func(err error) (int, int, error) {
		unix.Close(master)
		return -1, -1, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fail(err)
	}
	if err := setSize(master, rows, cols); err != nil {
		return fail(err)
	}
	// Where the terminal edits the line, Backspace erases a character and not one of its
	// bytes. gVisor does not know it, and that is no reason to have no terminal.
	if mode, err := unix.IoctlGetTermios(master, unix.TCGETS); err == nil {
		mode.Iflag |= unix.IUTF8
		_ = unix.IoctlSetTermios(master, unix.TCSETS, mode)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return fail(err)
	}
	slave, err = unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	return master, slave, nil
}

func setSize(fd int, rows, cols uint64) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(min(rows, 0xffff)), Col: uint16(min(cols, 0xffff))})
}

func (s *Supervisor) resize(id string, rows, cols uint64) *fail {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id]
	fd := -1
	switch {
	case p == nil:
		return failf(wire.CodeNotFound, "no process %s", id)
	case p.master >= 0:
		fd = p.master
	case p.streams != nil && p.streams.tty:
		return p.streams.resize(rows, cols)
	default:
		return failf(wire.CodeUnsupported, "process %s has no terminal", id)
	}
	if err := setSize(fd, rows, cols); err != nil {
		return failf(wire.CodeEnded, "cannot resize the terminal of %s: %v", id, err)
	}
	return nil
}

// closeStdin gives end-of-file to the process. The gateway has closed its own
// end already.
func (s *Supervisor) closeStdin(id string, off uint64) *fail {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id]
	switch {
	case p == nil:
		return failf(wire.CodeNotFound, "no process %s", id)
	case p.streams != nil:
		p.streams.closeStdin(int64(off))
	case p.stdin >= 0:
		unix.Close(p.stdin)
		p.stdin = -1
	}
	return nil
}

// keep holds on to a relay pipe of a gateway.
func (s *Supervisor) keep(id string, fds []int) *fail {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id]
	if p == nil || len(fds) != 2 || p.relay[0] >= 0 {
		closeFDs(fds)
		if p == nil {
			return failf(wire.CodeNotFound, "no process %s", id)
		}
		return failf(wire.CodeInvalid, "process %s takes one relay of two descriptors", id)
	}
	p.relay = [2]int(fds)
	return nil
}

// pipesOf identifies the pipes that a process writes into, by which descendants
// are found too: both ends of a pipe are one inode.
func (s *Supervisor) pipesOf(p *proc) map[pipeID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[pipeID]bool{}
	note := func(fd int) {
		if id, ok := identify(fd); ok {
			ids[id] = true
		}
	}
	for _, id := range p.written {
		ids[id] = true
	}
	for _, fd := range p.outputs {
		note(fd)
	}
	if p.streams != nil {
		p.streams.eachOutput(note)
	}
	return ids
}

// pipeID tells pipes apart.
type pipeID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) (pipeID, bool) {
	return pipeID{uint64(st.Dev), st.Ino}, st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// identify identifies the pipe of a descriptor; false if it is none.
func identify(fd int) (pipeID, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return pipeID{}, false
	}
	return idOf(&st)
}
