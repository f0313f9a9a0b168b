//go:build linux

package warden

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
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
	free  [][]byte // buffers of chunk bytes, of what was acknowledged
	lent  int64    // of spare, for what is held beyond window
	spare *spare
	acked int64
	end   int64
	sent  int64
	open  int // outputs that have not ended
	over  bool
	drain *time.Timer

	pending wire.Held // input that was not yet written into the process
	granted int64     // up to where the sender may go, as it was told
	closeAt int64     // close after that many bytes; -1: not yet
	broken  bool
	writer  bool // the writing goroutine runs
}

// spare is memory that processes share whose output comes faster than it is
// acknowledged.
type spare struct{ used atomic.Int64 }

// lend gives n more bytes, of which a negative number takes them back; false if there are
// not so many.
func (s *spare) lend(n int64) bool {
	if s.used.Add(n) <= allSpare || n <= 0 {
		return true
	}
	s.used.Add(-n)
	return false
}

type piece struct {
	stream uint64
	data   []byte
	whole  []byte // the buffer it is in, if it may be used again; else nil
}

const (
	// window bounds the output held for one process and the input queued
	// for it, in bytes. The gateway's end knows it too. The output of one that
	// prints much may take spare memory beside it, up to maxHeld in all.
	window  = wire.Window
	maxHeld = 4 << 20
	// allSpare is how much of that there is for all processes, in bytes.
	allSpare = 8 << 20
	// firstChunk bounds the output of one message, and chunk if there is much.
	firstChunk = 32 << 10
	chunk      = 128 << 10
	// maxAhead is how many messages may wait to be sent when output is read.
	maxAhead = 2
	// maxFree bounds the buffers of chunk bytes that wait for the next reads.
	maxFree = 4
	// largePipe is how much the pipe of a stream is to hold that prints much, in bytes.
	largePipe = 256 << 10
)

// drainLimit is how long output is still read after the process's exit while a
// descendant holds it open; corral.DrainLimit is the same.
const drainLimit = 100 * time.Millisecond

// newStreams takes over descriptors: in may be -1, or the same as the only
// output for a terminal.
func newStreams(id string, in int, outs []int, tty bool, spare *spare) *streams {
	st := &streams{id: id, tty: tty, closeAt: -1, open: len(outs), granted: window, spare: spare}
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
	large := st.tty
	buf := make([]byte, firstChunk)
	for pieces := (coalesce.Stream{}); err == nil; {
		st.awaitTurn()
		n := 0
		var rerr error
		err = rc.Read(func(fd uintptr) bool {
			n, rerr = unix.Read(int(fd), buf)
			return rerr != unix.EAGAIN && rerr != unix.EINTR
		})
		if err == nil && (rerr != nil || n == 0) {
			err = errEnd
		}
		if n > 0 {
			buf = st.add(stream, buf, n)
		}
		if n == firstChunk && !large {
			large = true
			buf = make([]byte, chunk)
			_ = rc.Control(func(fd uintptr) { // the system may have limits
				_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, largePipe)
			})
		}
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
	for buf := make([]byte, min(left, chunk)); left > 0; {
		n := 0
		if rc.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf[:min(left, len(buf))]) }) != nil || n <= 0 {
			return
		}
		buf = st.add(stream, buf, n)
		left -= n
	}
}

// add holds the first n bytes of buf, which are output, and sends them if a gateway is
// attached. It waits while the window is full. What it returns is to be read into next.
func (st *streams) add(stream uint64, buf []byte, n int) []byte {
	p := piece{stream: stream, data: buf[:n]}
	if n < len(buf)/2 {
		p.data = append([]byte(nil), p.data...)
	} else {
		p.whole, buf = buf, nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for !st.over && !st.roomLocked(int64(n)) {
		st.changed.Wait()
	}
	if buf == nil {
		buf = st.bufferLocked(len(p.whole))
	} else if len(st.held) == 0 {
		st.held, st.free = nil, nil // it prints little now
	}
	if st.over {
		return buf
	}
	st.held = append(st.held, p)
	off := st.end
	st.end += int64(n)
	if st.sent == off {
		st.send(&wire.Message{Type: wire.Output, ID: st.id, Offset: uint64(off), Stream: stream, Data: p.data}, st.end)
	}
	return buf
}

// awaitTurn waits until next to nothing waits to be sent. Until then output gathers in the
// process's pipe, from which it comes in larger pieces.
func (st *streams) awaitTurn() {
	st.mu.Lock()
	conn := st.conn
	st.mu.Unlock()
	if o, ok := conn.(*outbox); ok {
		o.awaitFewer(maxAhead)
	}
}

// bufferLocked is one to read into. New ones would be new pages from the system, again
// and again: the runtime gives back those that it finds unused.
func (st *streams) bufferLocked(size int) []byte {
	if n := len(st.free); n > 0 && size == chunk {
		b := st.free[n-1]
		st.free = st.free[:n-1]
		return b
	}
	return make([]byte, size)
}

// reuseLocked keeps the buffer of a piece that was acknowledged, for the next reads.
func (st *streams) reuseLocked(p *piece) {
	if len(p.whole) == chunk && len(st.free) < maxFree {
		st.free = append(st.free, p.whole)
	}
}

// roomLocked tells whether n more bytes of output may be held.
func (st *streams) roomLocked(n int64) bool {
	held := st.end - st.acked + n
	beyond := max(held-window, 0)
	if held > maxHeld || !st.spare.lend(beyond-st.lent) {
		return false
	}
	st.lent = beyond
	return true
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
	for i := range st.held { // it may be on its way once more
		st.held[i].whole = nil
	}
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
			st.reuseLocked(p)
			st.held[0] = piece{}
			st.held = st.held[1:]
		}
	}
	st.giveBackLocked()
	st.changed.Broadcast()
}

// giveBackLocked gives back the spare memory that is not needed any more.
func (st *streams) giveBackLocked() {
	if unneeded := st.lent - max(st.end-st.acked-window, 0); unneeded > 0 {
		st.spare.lend(-unneeded)
		st.lent -= unneeded
	}
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
	return st.pending.End()
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
	have := st.pending.End()
	off, data := int64(m.Offset), m.Data
	switch {
	case off < 0 || off > have:
		return failf(wire.CodeInvalid, "input of %s goes on at byte %d, not %d", m.ID, have, off)
	case off+int64(len(data)) <= have:
		st.sendInputAck() // repeated after a new connection
		return nil
	}
	data = data[have-off:]
	if st.pending.Len()+len(data) > window {
		return failf(wire.CodeInvalid, "more than %d bytes of input of %s are not acknowledged", window, m.ID)
	}
	if st.broken || st.closeAt >= 0 {
		st.sendInputAck()
		return nil
	}
	st.pending.Add(data)
	st.wakeWriter()
	if m.Flags&wire.FlagMore == 0 {
		st.sendInputAck()
	}
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
	for !st.broken && st.pending.Len() > 0 {
		taken := st.pending.Start()
		data := st.pending.From(taken)
		st.mu.Unlock()
		n, err := st.in.Write(data)
		st.mu.Lock()
		taken += int64(n)
		st.pending.Drop(taken)
		if err != nil {
			st.broken = true
			st.pending = wire.HeldFrom(taken)
		}
		if st.broken || taken >= st.granted-window/2 {
			st.sendInputAck()
		}
	}
	st.writer = false
	if st.closeAt >= 0 && (st.broken || st.pending.Start() >= st.closeAt) {
		st.in.Close()
	}
}

// sendInputAck says what has arrived, and how far the sender may go.
func (st *streams) sendInputAck() {
	if st.in == nil {
		return
	}
	taken := st.pending.Start()
	st.granted = taken + window
	m := &wire.Message{Type: wire.InputAck, ID: st.id, Offset: uint64(st.pending.End()), Limit: uint64(st.granted)}
	if st.broken || st.closeAt >= 0 && taken >= st.closeAt {
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
	st.held, st.free, st.acked = nil, nil, st.end
	st.giveBackLocked()
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
