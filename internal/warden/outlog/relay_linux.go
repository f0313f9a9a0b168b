package outlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// relay is a pipe that bytes pass on their way into the ring (and from a
// terminal, which cannot be spliced into a file). Its owner passes both ends to
// another program that outlives this one.
type relay struct {
	r, w *os.File
	held int64 // bytes in it

	enlarged uint8 // bit set of streams whose pipe was enlarged
}

func (r *relay) close() {
	if r.r != nil {
		r.r.Close()
		r.w.Close()
	}
	*r = relay{}
}

// A Descriptor is not closed while Control calls f.
type Descriptor interface {
	Control(f func(fd uintptr)) error
}

// A Source is where a stream of output comes from.
type Source struct {
	End    Descriptor // of a pipe or a terminal
	Stream corral.Stream
	TTY    bool

	// Relay makes a relay pipe and returns once a program that outlives this one
	// holds it too. It is called at most once for a log; nil makes one that only
	// this program holds.
	Relay func() (r, w *os.File, err error)
}

// ErrNothing: there is nothing to take at the moment.
var ErrNothing = errors.New("nothing to read")

// Take moves some of what src has into the log, and returns how many bytes. It
// never waits for more: then it returns ErrNothing. At the end of src that is
// io.EOF, an error that wraps os.ErrClosed if the file was closed, and any other
// error with nothing lost: calling Take again goes on, for example when there is
// room on the disk.
func (l *Log) Take(src Source) (n int64, err error) {
	var merr error
	if err := src.End.Control(func(fd uintptr) { n, merr = l.move(int(fd), src) }); err != nil {
		return 0, err
	}
	switch merr {
	case nil, io.EOF:
		return n, merr
	case unix.EAGAIN:
		return n, ErrNothing
	}
	return n, fmt.Errorf("cannot move output into the log of %s: %w", l.id, merr)
}

const (
	spliceFlags = unix.SPLICE_F_NONBLOCK | unix.SPLICE_F_MOVE
	// pipeSize is what pipes are enlarged to for a process that writes a
	// lot: measured, a ring filled through 64 KiB pipes reaches half the
	// rate, through 256 KiB pipes four fifths, and through 1 MiB pipes no
	// more.
	pipeSize = 512 << 10
	// enlargeFrom is how much output is a lot, in bytes.
	enlargeFrom = 512 << 10
)

// move takes what is there, EAGAIN if nothing is, and returns how much left fd,
// also with an error.
func (l *Log) move(fd int, src Source) (int64, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.flush(); err != nil {
		return 0, err
	}
	got, err := ready(fd)
	switch {
	case err != nil:
		return 0, err
	case got&unix.POLLIN != 0:
	case got&(unix.POLLHUP|unix.POLLERR) != 0:
		return 0, io.EOF
	default:
		return 0, unix.EAGAIN
	}
	if err := l.beginRun(src.Stream); err != nil {
		return 0, err
	}
	if !src.TTY && l.size >= enlargeFrom && l.relay.enlarged&(1<<src.Stream) == 0 {
		l.relay.enlarged |= 1 << src.Stream
		// Best effort: an unprivileged user has a quota of large pipes.
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize)
	}
	room := l.head + l.tail - l.size
	if !src.TTY && room > 0 && l.pos == nil {
		return l.direct(fd, room)
	}
	if l.relay.r == nil {
		if err := l.makeRelay(src); err != nil {
			return 0, err
		}
	}
	n, err := splice(fd, nil, int(l.relay.w.Fd()), nil, maxPending)
	if err != nil {
		if src.TTY && err == unix.EIO { // no process has the terminal open
			err = io.EOF
		}
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	l.relay.held = n
	return n, l.settle()
}

// flush writes what an earlier error left in the relay.
func (l *Log) flush() error {
	if l.relay.held == 0 {
		return nil
	}
	return l.settle()
}

// ready is what poll says of a descriptor now. The kernel looks at the bytes
// first and at the writers then: what the last one writes in between shows at a
// second look.
func ready(fd int) (events int16, err error) {
	if events, err = poll(fd); err == nil && events&unix.POLLIN == 0 && events&(unix.POLLHUP|unix.POLLERR) != 0 {
		events, err = poll(fd)
	}
	return events, err
}

// poll never blocks, so the runtime need not be told of the system call, which
// costs more than the call.
func poll(fd int) (events int16, err error) {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var timeout unix.Timespec
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return 0, errno
	}
	return p.Revents, nil
}

// AtEnd tells whether everything was taken and no process can write any more.
func (s Source) AtEnd() bool {
	end := false
	_ = s.End.Control(func(fd uintptr) { // closed: then it is not for us to tell
		got, err := ready(int(fd))
		end = err == nil && got&unix.POLLIN == 0 && got&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return end
}

// direct moves bytes into the part of the file that has never been written:
// the kernel lengthens the file as it moves them.
func (l *Log) direct(fd int, room int64) (int64, error) {
	at := l.size
	n, err := splice(fd, nil, int(l.out.Fd()), &at, int(min(room, maxPending)))
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, l.advance(n)
}

func splice(from int, fromOff *int64, to int, toOff *int64, n int) (int64, error) {
	for {
		k, err := unix.Splice(from, fromOff, to, toOff, n, spliceFlags)
		if err != unix.EINTR {
			return k, err
		}
	}
}

func (l *Log) makeRelay(src Source) error {
	make := src.Relay
	if make == nil {
		make = NewRelay
	}
	r, w, err := make()
	if err != nil {
		return fmt.Errorf("cannot make a relay pipe: %w", err)
	}
	l.relay.r, l.relay.w = r, w
	return nil
}

// NewRelay makes a pipe fit for a relay.
func NewRelay() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, err
	}
	r, w = AsRelay(p)
	return r, w, nil
}

// settle writes down how many bytes the relay holds, if they will overwrite
// others, and moves them into the file.
func (l *Log) settle() error {
	if l.turned(l.relay.held) {
		if err := l.needPosition(); err != nil {
			return err
		}
	}
	if l.pos != nil {
		if err := l.pos.store(l.size, l.relay.held); err != nil {
			return err
		}
		l.setPending(l.relay.held)
	}
	return l.drain()
}

// drain empties the relay into the file.
func (l *Log) drain() error {
	for l.relay.held > 0 {
		at, room := l.place()
		n, err := splice(int(l.relay.r.Fd()), nil, int(l.out.Fd()), &at, int(min(l.relay.held, room)))
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the relay pipe holds less than it was given")
		}
		l.relay.held -= n
		if err := l.advance(n); err != nil {
			return err
		}
	}
	return nil
}

// AdoptRelay gives a log that was opened the relay pipe of its former life,
// and brings the log to where that life left it.
func (l *Log) AdoptRelay(r, w *os.File) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.relay.r, l.relay.w = r, w
	held, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
	if err != nil {
		return fmt.Errorf("cannot see what the relay pipe holds: %w", err)
	}
	l.relay.held = int64(held)
	if l.pos != nil {
		size, filled, err := l.pos.load()
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.size = size + max(0, filled-l.relay.held)
		l.pending = 0
		l.mu.Unlock()
	}
	if l.relay.held == 0 {
		return l.advance(0)
	}
	if l.out == nil {
		if err := l.beginRun(l.runs.current()); err != nil {
			return err
		}
	}
	return l.settle()
}

// terminalHolds is more than a terminal holds of output, in bytes: Linux bounds
// the buffers before its line discipline to 8 KiB (pty_common_install) and a
// last write, and those behind it to 4 KiB (N_TTY_BUF_SIZE). TIOCINQ counts only
// the latter.
const terminalHolds = 64 << 10

// Sweep moves what is there now and does not wait for more: the last bytes of a
// process with a descendant that goes on writing.
func (l *Log) Sweep(src Source) error {
	var merr error
	err := src.End.Control(func(fd uintptr) {
		l.writing.Lock()
		merr = l.flush()
		l.writing.Unlock()
		left := terminalHolds
		if merr == nil && !src.TTY {
			left, merr = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
		// The log may grow by another stream meanwhile.
		for n := int64(0); merr == nil && n < int64(left); {
			var k int64
			k, merr = l.move(int(fd), src)
			n += k
		}
	})
	if err == nil && merr != unix.EAGAIN && !errors.Is(merr, io.EOF) {
		err = merr
	}
	return err
}
