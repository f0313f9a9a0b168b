//go:build linux

package warden

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/coalesce"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// streams carries a process's output and input over a connection that cannot
// pass descriptors. Output is held until it is acknowledged, up to a window;
// then the process blocks, as it would on a full pipe.
type streams struct {
	id   string
	tty  bool
	in   *os.File // nil without standard input
	outs []*os.File

	mu      sync.Mutex
	changed *sync.Cond
	conn    wire.Conn // nil while no gateway is attached

	// Output. Bytes [acked, end) are held; bytes before sent were sent.
	held  []piece
	acked int64
	end   int64
	sent  int64
	open  int // outputs that have not ended
	over  bool
	drain *time.Timer

	// Input. Bytes before taken were written into the process; pending
	// follow them.
	taken   int64
	pending []byte
	granted int64 // up to where the sender may go, as it was told
	closeAt int64 // close after that many bytes; -1: not yet
	broken  bool
	writer  bool // the writing goroutine runs
}

type piece struct {
	stream uint64
	data   []byte
}

const (
	// window bounds the output held for one process and the input queued
	// for it, in bytes. The gateway's end knows it too.
	window = wire.Window
	// chunk bounds the output of one message.
	chunk = 32 << 10
)

// drainLimit is how long output is still read after the process's exit while a
// descendant holds it open; corral.DrainLimit is the same.
const drainLimit = 100 * time.Millisecond

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// newStreams takes over descriptors: in may be -1, or the same as the only
// output for a terminal.
func newStreams(id string, in int, outs []int, tty bool) *streams {
	st := &streams{id: id, tty: tty, closeAt: -1, open: len(outs), granted: window}
	st.changed = sync.NewCond(&st.mu)
	file := func(fd int) *os.File {
		_ = unix.SetNonblock(fd, true) // a pipe or a terminal: cannot fail
		return os.NewFile(uintptr(fd), "stream of "+id)
	}
	for _, fd := range outs {
		st.outs = append(st.outs, file(fd))
	}
	switch {
	case tty:
		st.in = st.outs[0]
	case in >= 0:
		st.in = file(in)
	}
	return st
}

// run begins to read the outputs.
func (st *streams) run() {
	for i, f := range st.outs {
		go st.read(f, uint64(i+1))
	}
}

// read moves one output into what is held, until its end or until the process
// has exited and drainLimit has passed. What is written later is thrown away,
// so that a descendant is not blocked.
func (st *streams) read(f *os.File, stream uint64) {
	if !st.tty {
		defer f.Close()
	}
	rc, err := f.SyscallConn()
	for pieces := (coalesce.Stream{}); err == nil; {
		buf := chunks.Get().(*[chunk]byte)
		n := 0
		var rerr error
		err = rc.Read(func(fd uintptr) bool {
			n, rerr = unix.Read(int(fd), buf[:])
			return rerr != unix.EAGAIN && rerr != unix.EINTR
		})
		if err == nil && (rerr != nil || n == 0) {
			err = errEnd
		}
		if n > 0 {
			st.add(stream, buf[:n])
		}
		chunks.Put(buf)
		if rest := pieces.Took(int64(n), time.Now()); rest > 0 && err == nil {
			time.Sleep(rest)
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		st.sweep(rc, stream)
		st.ended()
		_ = f.SetReadDeadline(time.Time{}) // closed by release: nothing to discard
		if !st.tty {
			for buf := make([]byte, 4096); ; {
				if _, err := f.Read(buf); err != nil {
					return
				}
			}
		}
		return
	}
	st.ended()
}

var errEnd = errors.New("end of output")

// terminalHolds is more output than a terminal of Linux holds, in bytes. TIOCINQ counts
// only a part of that; outlog has the reason. GVisor's terminal holds all that is
// written, and TIOCINQ counts it.
const terminalHolds = 64 << 10

// sweep takes what is in the pipe now: the process wrote it before its exit,
// and only a full window kept it from being read in time.
func (st *streams) sweep(rc interface{ Control(func(uintptr)) error }, stream uint64) {
	left := 0
	_ = rc.Control(func(fd uintptr) { // fails when it was closed: nothing is left
		left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	})
	if st.tty {
		left = max(left, terminalHolds)
	}
	for left > 0 {
		buf := make([]byte, min(left, chunk))
		n := 0
		if rc.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }) != nil || n <= 0 {
			return
		}
		st.add(stream, buf[:n])
		left -= n
	}
}

// add holds a piece of output and sends it if a gateway is attached. It waits while
// the window is full.
func (st *streams) add(stream uint64, p []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.end-st.acked >= window && !st.over {
		st.changed.Wait()
	}
	if st.over {
		return
	}
	data := append([]byte(nil), p...)
	st.held = append(st.held, piece{stream, data})
	off := st.end
	st.end += int64(len(data))
	if st.sent == off {
		st.send(&wire.Message{Type: wire.Output, ID: st.id, Offset: uint64(off), Stream: stream, Data: data}, st.end)
	}
}

func (st *streams) send(m *wire.Message, sent int64) {
	if st.conn == nil {
		return
	}
	if st.conn.Send(m) != nil { // then Serve ends too, and a gateway attaches again
		st.conn = nil
		return
	}
	st.sent = max(st.sent, sent)
}

// ended notes the end of one output.
func (st *streams) ended() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.open--
	st.sendEnd()
}

func (st *streams) sendEnd() {
	if st.open == 0 && st.sent == st.end {
		st.send(&wire.Message{Type: wire.Output, ID: st.id, Offset: uint64(st.end), Flags: wire.FlagEOF}, st.end)
	}
}

// attach sends everything from offset on to conn, and what follows as it comes.
func (st *streams) attach(conn wire.Conn, from int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.conn = conn
	st.ackLocked(from)
	st.sent = st.acked
	off := st.acked
	for _, p := range st.held {
		next := off + int64(len(p.data))
		st.send(&wire.Message{Type: wire.Output, ID: st.id, Offset: uint64(off), Stream: p.stream, Data: p.data}, next)
		off = next
	}
	st.sendEnd()
	st.sendInputAck()
}

func (st *streams) detach(conn wire.Conn) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.conn == conn {
		st.conn = nil
	}
}

func (s *Supervisor) outputAck(id string, off int64) {
	if p, f := s.lookup(id); f == nil && p.streams != nil {
		p.streams.mu.Lock()
		defer p.streams.mu.Unlock()
		p.streams.ackLocked(off)
	}
}

// ackLocked lets go of what is before off.
func (st *streams) ackLocked(off int64) {
	off = min(off, st.end)
	for st.acked < off {
		p := &st.held[0]
		n := min(off-st.acked, int64(len(p.data)))
		st.acked += n
		if p.data = p.data[n:]; len(p.data) == 0 {
			st.held = st.held[1:]
		}
	}
	st.changed.Broadcast()
}

// exited bounds how long output is still read.
func (st *streams) exited() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.drain = time.AfterFunc(drainLimit, func() {
		for _, f := range st.outs {
			_ = f.SetReadDeadline(time.Now()) // closed: it has ended
		}
	})
}

func (st *streams) accepted() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.taken + int64(len(st.pending))
}

// input queues bytes for the process's standard input.
func (s *Supervisor) input(m *wire.Message) *fail {
	p, f := s.lookup(m.ID)
	if f != nil {
		return f
	}
	st := p.streams
	if st == nil || st.in == nil {
		return failf(wire.CodeStdinClosed, "process %s has no standard input", m.ID)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	have := st.taken + int64(len(st.pending))
	off, data := int64(m.Offset), m.Data
	switch {
	case off < 0 || off > have:
		return failf(wire.CodeInvalid, "input of %s goes on at byte %d, not %d", m.ID, have, off)
	case off+int64(len(data)) <= have:
		st.sendInputAck() // repeated after a new connection
		return nil
	}
	data = data[have-off:]
	if len(st.pending)+len(data) > window {
		return failf(wire.CodeInvalid, "more than %d bytes of input of %s are not acknowledged", window, m.ID)
	}
	if st.broken || st.closeAt >= 0 {
		st.sendInputAck()
		return nil
	}
	st.pending = append(st.pending, data...)
	st.wakeWriter()
	st.sendInputAck()
	return nil
}

func (st *streams) closeStdin(at int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.in == nil || st.tty || st.closeAt >= 0 {
		return
	}
	st.closeAt = at
	st.wakeWriter()
}

// wakeWriter starts the goroutine that writes input, which ends when there is
// no more for now.
func (st *streams) wakeWriter() {
	if !st.writer {
		st.writer = true
		go st.write()
	}
}

func (st *streams) write() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for !st.broken && len(st.pending) > 0 {
		data := st.pending[:min(len(st.pending), chunk)]
		st.mu.Unlock()
		n, err := st.in.Write(data)
		st.mu.Lock()
		st.taken += int64(n)
		st.pending = st.pending[n:]
		if err != nil {
			st.broken = true
			st.pending = nil
		}
		if st.broken || st.taken >= st.granted-window/2 {
			st.sendInputAck()
		}
	}
	if len(st.pending) == 0 {
		st.pending = nil
	}
	st.writer = false
	if st.closeAt >= 0 && (st.broken || st.taken >= st.closeAt) {
		st.in.Close()
	}
}

// sendInputAck says what has arrived, and how far the sender may go.
func (st *streams) sendInputAck() {
	if st.in == nil {
		return
	}
	st.granted = st.taken + window
	m := &wire.Message{Type: wire.InputAck, ID: st.id, Offset: uint64(st.taken) + uint64(len(st.pending)), Limit: uint64(st.granted)}
	if st.broken || st.closeAt >= 0 && st.taken >= st.closeAt {
		m.Flags = wire.FlagEOF
	}
	st.send(m, 0)
}

func (st *streams) resize(rows, cols uint64) *fail {
	err := error(nil)
	rc, rerr := st.outs[0].SyscallConn()
	if rerr == nil {
		rerr = rc.Control(func(fd uintptr) { err = setSize(int(fd), rows, cols) })
	}
	if err = errors.Join(err, rerr); err != nil {
		return failf(wire.CodeEnded, "cannot resize the terminal of %s: %v", st.id, err)
	}
	return nil
}

// release ends everything. With drain, outputs that are still open go on being
// read and thrown away by their readers.
func (st *streams) release(drain bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	st.conn = nil
	st.held = nil
	st.changed.Broadcast()
	if st.drain != nil {
		st.drain.Stop()
	}
	if st.in != nil && !st.tty {
		st.in.Close()
	}
	if drain && !st.tty {
		return
	}
	for _, f := range st.outs {
		f.Close()
	}
}

// eachOutput calls f with the descriptor of every output that is still open.
func (st *streams) eachOutput(f func(fd int)) {
	for _, out := range st.outs {
		if rc, err := out.SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) { f(int(fd)) }) // closed: none
		}
	}
}
