package wardenexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/coalesce"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// passed is what goes to the warden with Start: the process's ends, then
// duplicates of ours for it to keep.
type passed struct {
	theirs []int // closed when they have been sent
	ours   []int // the warden keeps a duplicate of each
}

func (s passed) all() []int { return append(s.theirs[:len(s.theirs):len(s.theirs)], s.ours...) }

func (s passed) close() { closePipes(s.theirs...) }

// closePipes closes ends of pipes, which never waits: the runtime need not know.
func closePipes(fds ...int) {
	for _, fd := range fds {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// closeFDs closes whatever a warden sent. That may wait, as for a socket that
// lingers.
func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// pipes is the carrier where descriptors can be passed.
type pipes struct {
	p    *process
	tty  bool
	wg   sync.WaitGroup // the pumps
	gone chan struct{}  // closed by stop
	pace *outlog.Pace

	mu      sync.Mutex
	stopped bool
	begun   bool        // run was called: open counts the outputs
	over    bool        // exited was called
	open    int         // the outputs, the process itself, and run until it has begun
	drain   *time.Timer // bounds reading after the exit
	input   *os.File    // nil: none, or closed
	outputs []*source
	kept    []int // descriptors of input and outputs, until they have been sent
	relay   [2]*os.File

	writing  turn.Lock // guards what follows
	fed      int64     // bytes of input so far
	enlarged bool
	untold   bool // the input is closed, and the warden does not know yet
}

func newPipes(p *process, flags uint64) *pipes {
	return &pipes{p: p, tty: flags&wire.FlagTTY != 0, open: 2, gone: make(chan struct{}), pace: p.e.opts.pace(), writing: turn.New()}
}

// source is a stream of output. It has a goroutine, its pump, from its first
// byte on.
type source struct {
	pi     *pipes
	end    outputEnd
	stream corral.Stream
	token  uint64 // of the watcher

	wake chan struct{} // tells the pump that there may be more to do; capacity 1

	// The pump's.
	pieces coalesce.Stream
	muted  bool

	// Guarded by pi.mu.
	pumping  bool
	ended    bool
	draining bool // what is there now is the rest
}

func (pi *pipes) addOutput(end outputEnd, stream corral.Stream) {
	pi.outputs = append(pi.outputs, &source{pi: pi, end: end, stream: stream, wake: make(chan struct{}, 1)})
}

// outputEnd is our end of a stream of output.
type outputEnd interface {
	Control(func(fd uintptr)) error
	Close() error
}

// newCarrier makes what the process is started with.
func (p *process) newCarrier(c *client, flags uint64) (passed, error) {
	if !c.conn.PassesFiles() || c.oneWay && flags&wire.FlagTTY != 0 {
		p.setCarrier(newMessages(p, c, flags))
		return passed{}, nil
	}
	pi := newPipes(p, flags)
	theirs, err := pi.make(flags, c)
	if err != nil {
		pi.stop()
		return passed{}, corral.Errorf(corral.ErrUnavailable, "end some commands, or raise the gateway's limit of open files (ulimit -n, LimitNOFILE=)", "cannot make the pipes of %s: %w", p.id, err)
	}
	p.setCarrier(pi)
	return passed{theirs, pi.kept}, nil
}

func (pi *pipes) make(flags uint64, c *client) (theirs []int, err error) {
	if pi.tty {
		r, w, err := outlog.NewRelay()
		if err != nil {
			return nil, err
		}
		pi.relay = [2]*os.File{r, w}
		a, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, err
		}
		b, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			unix.Close(a)
			return nil, err
		}
		return []int{a, b}, nil
	}
	var process, kept []int
	fail := func(err error) ([]int, error) {
		closePipes(process...) // what is kept belongs to files of pi, which stop closes
		return nil, err
	}
	pipe := func(role string, ourEnd int) (int, error) {
		fds, err := pi.newPipe(role, c)
		if err != nil {
			return -1, err
		}
		process, kept = append(process, fds[1-ourEnd]), append(kept, fds[ourEnd])
		return fds[ourEnd], nil
	}
	if flags&wire.FlagStdin != 0 {
		fd, err := pipe(outlog.PipeStdin, 1)
		if err != nil {
			return fail(err)
		}
		err = unix.SetNonblock(fd, true)
		pi.input = os.NewFile(uintptr(fd), "pipe")
		if err != nil {
			return fail(err)
		}
	}
	for _, o := range outputs(flags) {
		fd, err := pipe(o.role, 0)
		if err != nil {
			return fail(err)
		}
		pi.addOutput(&descriptor{fd: fd}, o.stream)
	}
	pi.kept = kept
	return process, nil
}

// ownInput opens our end of the input once more where the warden is not
// trusted: those who hold the same description could make it block.
func (pi *pipes) ownInput() error {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	if pi.input == nil || pi.tty || !pi.p.e.opts.Untrusted {
		return nil
	}
	own, err := pi.inputAgain()
	if err != nil {
		return err
	}
	pi.input.Close()
	pi.input = os.NewFile(uintptr(own), "pipe")
	return nil
}

// carrierStarted takes the answer to Start and begins to read.
func (p *process) carrierStarted(c *client, a answer) error {
	pi, ok := p.carry().(*pipes)
	if !ok {
		closeFDs(a.fds)
		p.carry().(*messages).begin()
		return nil
	}
	if pi.tty {
		if len(a.fds) != 1 {
			closeFDs(a.fds)
			return errors.New("the warden sent no terminal")
		}
		if err := pi.setTerminal(a.fds[0]); err != nil {
			return err
		}
	} else {
		closeFDs(a.fds)
		if err := pi.ownInput(); err != nil {
			return err
		}
	}
	return pi.run()
}

func (pi *pipes) setTerminal(fd int) error {
	if err := checkTerminal(fd); err != nil {
		unix.Close(fd)
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	f := os.NewFile(uintptr(fd), "terminal")
	pi.mu.Lock()
	defer pi.mu.Unlock()
	if pi.stopped {
		f.Close()
		return os.ErrClosed
	}
	pi.input = f
	rc, err := f.SyscallConn()
	if err != nil {
		return err // pi.input is closed by stop
	}
	pi.addOutput(terminalEnd{rc, f}, corral.Stdout)
	return nil
}

// run begins to read. What comes last ends the process: the end of an output, or the
// process's own.
func (pi *pipes) run() error {
	pi.mu.Lock()
	outputs := pi.outputs
	if pi.stopped {
		outputs = nil
	}
	pi.open += len(outputs)
	pi.begun = true
	if pi.over {
		pi.boundDrain()
	}
	pi.mu.Unlock()
	for _, s := range outputs {
		if err := pi.p.e.watcher.add(s); err != nil && !pi.isStopped() {
			return err
		}
	}
	pi.part() // of run itself
	return nil
}

// part notes that one of those that a process's end waits for is through.
func (pi *pipes) part() {
	pi.mu.Lock()
	pi.open--
	last := pi.open == 0
	pi.mu.Unlock()
	if last {
		pi.through()
	}
}

// through ends the process, whose end waits for nothing any more.
func (pi *pipes) through() {
	if pi.close() {
		pi.p.finish()
	}
}

// exited is called once, perhaps before run.
func (pi *pipes) exited() {
	pi.mu.Lock()
	pi.over = true
	if pi.begun {
		for _, s := range pi.outputs {
			// The watcher is about to say so.
			if !pi.stopped && !s.pumping && !s.ended && (outlog.Source{End: s.end}).AtEnd() {
				s.ended = true
				pi.open--
			}
		}
		pi.boundDrain()
	}
	pi.mu.Unlock()
	pi.part()
}

// boundDrain bounds how long output is still read, when the process has ended
// and reading has begun. mu is held.
func (pi *pipes) boundDrain() {
	if pi.open <= 1 || pi.stopped {
		return
	}
	outputs := pi.outputs
	pi.drain = time.AfterFunc(corral.DrainLimit, func() {
		pi.mu.Lock()
		for _, s := range outputs {
			s.draining = true
		}
		pi.mu.Unlock()
		for _, s := range outputs {
			pi.ready(s, true)
		}
	})
}

// ready is told when something has happened to an output: there is something to read,
// or no process can write any more.
func (pi *pipes) ready(s *source, readable bool) {
	pi.mu.Lock()
	switch {
	case s.ended || pi.stopped:
	case s.pumping:
		select {
		case s.wake <- struct{}{}:
		default:
		}
	case readable, !(outlog.Source{End: s.end}).AtEnd(): // the kernel may see the end before the last bytes
		s.pumping = true
		pi.wg.Go(func() { pi.pump(s) })
	default:
		s.ended = true
		if pi.open--; pi.open == 0 {
			pi.p.e.wg.Go(pi.through) // the watcher, which all share, waits for no disk
		}
	}
	pi.mu.Unlock()
}

func (pi *pipes) isStopped() bool {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	return pi.stopped
}

// pump moves a stream into the log until it ends.
func (pi *pipes) pump(s *source) {
	src := outlog.Source{End: s.end, Stream: s.stream, TTY: pi.tty, Relay: pi.makeRelay}
	for warned := false; ; {
		pi.mu.Lock()
		draining := s.draining
		pi.mu.Unlock()
		n, err := int64(0), error(nil)
		if draining {
			if err = pi.p.log.Sweep(src); err == nil {
				err = io.EOF
			}
		} else {
			n, err = pi.p.log.Take(src)
		}
		switch {
		case err == nil:
			pi.rest(s, max(pi.pace.Took(n), s.pieces.Took(n, time.Now())))
		case errors.Is(err, io.EOF):
			pi.mu.Lock()
			s.ended = true
			pi.mu.Unlock()
			pi.part()
			return
		case errors.Is(err, outlog.ErrNothing):
			pi.mute(s, false)
			select {
			case <-s.wake:
			case <-pi.gone:
				return
			}
		case pi.isStopped(): // and the file closed
			return
		default:
			if !warned {
				warned = true
				pi.p.e.log.Error("output waits: its log cannot be written", "id", pi.p.id, "error", err)
			}
			select {
			case <-time.After(retryDelay):
			case <-pi.gone:
				return
			}
		}
	}
}

// rest leaves a stream alone for some time, in which the process waits if it
// writes more. What is there at the end of the process is taken at once.
func (pi *pipes) rest(s *source, d time.Duration) {
	if d <= 0 {
		return
	}
	pi.mute(s, true)
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-s.wake:
			pi.mu.Lock()
			draining := s.draining
			pi.mu.Unlock()
			if draining {
				return
			}
		case <-over.C:
			return
		case <-pi.gone:
			return
		}
	}
}

// mute has the watcher be silent of what there is to read, or not. If it cannot
// be silent, its words are only in vain; else it is the executor that ends.
func (pi *pipes) mute(s *source, muted bool) {
	if s.muted == muted {
		return
	}
	change := pi.p.e.watcher.unmute
	if muted {
		change = pi.p.e.watcher.mute
	}
	if err := change(s); err == nil {
		s.muted = muted
	}
}

// makeRelay makes the log's relay pipe, which the warden keeps too.
func (pi *pipes) makeRelay() (r, w *os.File, err error) {
	if pi.relay[0] != nil {
		r, w = pi.relay[0], pi.relay[1]
		pi.relay = [2]*os.File{}
		return r, w, nil
	}
	c := pi.p.e.current()
	if r, w, err = pi.newRelay(c); err != nil || pi.p.e.opts.Ephemeral {
		return r, w, err
	}
	if c == nil {
		err = errors.New("not connected to the warden")
	} else {
		ctx, cancel := context.WithTimeout(pi.p.e.life, helloTimeout)
		defer cancel()
		_, err = c.call(ctx, &wire.Message{Type: wire.Keep, ID: pi.p.id}, nil, int(r.Fd()), int(w.Fd()))
	}
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, err
	}
	return r, w, nil
}

func (pi *pipes) event(*wire.Message) {}

// reattach makes the new connection the one that hears of the process's end.
// The descriptors are the same as before.
func (pi *pipes) reattach(c *client) error {
	a, err := c.call(pi.p.e.life, &wire.Message{Type: wire.Attach, ID: pi.p.id}, nil)
	if err != nil {
		return err
	}
	closeFDs(a.fds)
	return nil
}

func (pi *pipes) write(ctx context.Context, b []byte) (int, error) {
	if err := pi.writing.Take(ctx); err != nil {
		return 0, err
	}
	defer pi.writing.Release()
	pi.mu.Lock()
	f := pi.input
	pi.mu.Unlock()
	if f == nil {
		return 0, corral.Errorf(corral.ErrStdinClosed, "start the command with stdin to write to it", "the standard input of %s is closed", pi.p.id)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if pi.fed += int64(len(b)); pi.fed >= bulk && !pi.tty && !pi.enlarged {
		pi.enlarged = true
		rc, err := f.SyscallConn()
		if err == nil {
			_ = rc.Control(func(fd uintptr) {
				_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bulkPipe) // best effort
			})
		}
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = f.SetWriteDeadline(time.Now()) // closed: Write fails
	})
	n, err := f.Write(b)
	if !stop() {
		<-cut                               // or the next Write had the deadline
		_ = f.SetWriteDeadline(time.Time{}) // closed: the next Write fails
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ctx.Err()
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EIO), errors.Is(err, os.ErrClosed):
		return n, pi.p.ended()
	}
	return n, fmt.Errorf("cannot write to the standard input of %s: %w", pi.p.id, err)
}

const (
	// bulk is from how many bytes of input on a larger pipe is worth it.
	bulk = 256 << 10
	// bulkPipe is its size: larger ones are no faster.
	bulkPipe = 512 << 10
)

func (pi *pipes) closeStdin(ctx context.Context) error {
	if pi.tty {
		_, err := pi.write(ctx, []byte{endOfFile})
		return err
	}
	if err := pi.writing.Take(ctx); err != nil {
		return err
	}
	defer pi.writing.Release()
	pi.mu.Lock()
	f := pi.input
	pi.input = nil
	pi.mu.Unlock()
	if f != nil {
		f.Close()
		pi.untold = true
	}
	if !pi.untold {
		return nil
	}
	// Until the warden knows, it keeps the input open: if it cannot be told now,
	// closing once more tells it.
	err := pi.p.call(ctx, &wire.Message{Type: wire.CloseStdin, ID: pi.p.id})
	if errors.Is(err, corral.ErrNotFound) || errors.Is(err, corral.ErrEnded) {
		err = nil
	}
	pi.untold = err != nil
	return err
}

// close closes everything; false if stop did.
func (pi *pipes) close() bool {
	pi.mu.Lock()
	defer pi.mu.Unlock()
	if pi.stopped {
		return false
	}
	pi.stopped = true
	if pi.drain != nil {
		pi.drain.Stop()
	}
	for _, s := range pi.outputs {
		pi.p.e.watcher.remove(s) // before the input is closed, which a terminal's output is, too
		s.end.Close()
	}
	for _, f := range append([]*os.File{pi.input}, pi.relay[:]...) {
		if f != nil {
			f.Close() // twice for a terminal
		}
	}
	return true
}

func (pi *pipes) stop() {
	if pi.close() {
		close(pi.gone)
	}
	pi.wg.Wait()
}
