//go:build linux

package exectest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

type refProcess struct {
	*world
	cmd   corral.Command
	info  corral.Info
	log   *refLog
	child *os.Process // nil if it could not be executed
	tty   *os.File    // the master
	kept  *os.File    // what should have been closed
	pipes []string    // what /proc/PID/fd calls the pipes of its output

	drained  atomic.Bool // nobody holds the output any more
	typedEnd atomic.Bool // CloseStdin was called on a terminal

	writing turn.Lock // held by the one Write that is at it
	busy    turn.Lock // held by the one call that holds others up
	waited  sync.Once

	mu      sync.Mutex
	stdin   *os.File // the write end, or the master; nil without
	closed  bool     // by CloseStdin
	gone    bool
	expired bool

	done chan struct{} // closed when exit is set
	exit corral.Exit
	ends chan os.Signal
}

func (p *refProcess) Info() corral.Info {
	info := p.info
	if p.ended() && p.bad("changes Info at the end") {
		info.PID = 0
	}
	if p.bad("reports a wrong PID") {
		info.PID++
	}
	if p.bad("claims to be a sandbox") {
		info.Host, info.Sandboxed = corral.HostSandbox, true
	}
	return info
}

func (p *refProcess) Log() corral.Log { return p.log }

func (p *refProcess) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *refProcess) Write(ctx context.Context, b []byte) (int, error) {
	if p.bad("holds others up") {
		defer p.queue()()
		ctx = context.WithoutCancel(ctx)
	}
	if err := p.writing.Take(ctx); err != nil {
		return 0, err
	}
	defer p.writing.Release()
	p.mu.Lock()
	stdin, closed, gone := p.stdin, p.closed, p.gone
	p.mu.Unlock()
	switch {
	case p.bad("accepts every Write"):
		if stdin == nil || closed || gone {
			return len(b), nil
		}
	case stdin == nil || closed, p.bad("has no input on a terminal without Stdin") && p.tty != nil && !p.cmd.Stdin:
		return 0, corral.Errorf(corral.ErrStdinClosed, "", "write to %s: its standard input is closed", p.info.ID)
	case gone:
		return 0, corral.Errorf(corral.ErrEnded, "", "write to %s: it has ended", p.info.ID)
	}
	if p.bad("loses input") && len(b) > 3 {
		_, err := stdin.Write(b[:len(b)-1])
		return len(b), err
	}
	if p.bad("takes Ctrl-C for itself") && len(b) == 1 && b[0] == 3 {
		return 1, p.child.Signal(syscall.SIGINT)
	}
	if p.bad("drops control characters") {
		_, err := stdin.Write(bytes.Trim(b, "\x03\x04"))
		return len(b), err
	}
	if p.bad("gives up on slow readers") {
		_ = stdin.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, _ = stdin.Write(b)
		return len(b), nil
	}
	if p.bad("closes stdin after the first Write") {
		defer func() { _ = p.CloseStdin(ctx) }()
	}
	if p.bad("mixes writes") && len(b) > 500 {
		half := len(b) / 2
		n, err := stdin.Write(b[:half])
		if err == nil {
			p.writing.Release()
			time.Sleep(time.Millisecond)
			_ = p.writing.Take(context.Background()) // in any case: it is released once more
			m, err := stdin.Write(b[half:])
			return n + m, err
		}
	}
	if !p.bad("cannot cancel Write") {
		stop := context.AfterFunc(ctx, func() { _ = stdin.SetWriteDeadline(time.Now()) })
		defer func() {
			if !stop() {
				_ = stdin.SetWriteDeadline(time.Time{})
			}
		}()
	}
	n, err := stdin.Write(b)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		if p.bad("miscounts a cancelled Write") {
			n -= 4096
		}
		if p.bad("ends the command when a call is cancelled") {
			_ = p.signalTree(syscall.SIGKILL)
		}
		return n, fmt.Errorf("write to %s: %w", p.info.ID, ctx.Err())
	case p.bad("knows no ErrEnded"):
		return n, err
	}
	return n, corral.Errorf(corral.ErrEnded, "", "write to %s: %w", p.info.ID, err)
}

// queue waits for other calls, whatever the context of the call says.
func (p *refProcess) queue() (leave func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second*new(Target).slack()) // more than who waits behind it has
	defer cancel()
	if p.busy.Take(ctx) != nil {
		return func() {}
	}
	return p.busy.Release
}

func (p *refProcess) CloseStdin(ctx context.Context) error {
	if p.tty != nil {
		if p.bad("cannot type end-of-file") || p.typedEnd.Swap(true) && p.bad("types end-of-file once") {
			return nil
		}
		_, err := p.Write(ctx, []byte{4})
		return err
	}
	if p.bad("holds others up") {
		defer p.queue()()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad("does not close stdin") {
		return nil
	}
	if p.stdin == nil || p.closed || p.gone {
		if p.closed && p.bad("closes only once") {
			return os.ErrClosed
		}
		return nil
	}
	p.closed = true
	return p.stdin.Close()
}

func (p *refProcess) Signal(_ context.Context, s corral.Signal) error {
	if p.bad("holds others up") {
		defer p.queue()()
	}
	if !s.Valid() && !p.bad("sends anything") {
		return corral.Errorf(corral.ErrInvalid, "", "signal %s: there is no signal %d", p.info.ID, int(s))
	}
	if p.bad("knows only classic signals") && s > 31 {
		return corral.Errorf(corral.ErrInvalid, "", "signal %s: unknown", p.info.ID)
	}
	if p.bad("makes TERM of every signal") {
		s = corral.SIGTERM
	}
	if p.bad("forgets what was left behind") && p.ended() {
		return corral.Errorf(corral.ErrEnded, "", "signal %s: it has ended", p.info.ID)
	}
	p.world.mu.Lock()
	mine := p.procs[p.info.ID] == p
	p.world.mu.Unlock()
	if !mine && !p.bad("signals by ID alone") {
		return corral.Errorf(corral.ErrEnded, "", "signal %s: it was removed", p.info.ID)
	}
	err := p.signalTree(syscall.Signal(s))
	if p.bad("knows no ErrEnded") && errors.Is(err, corral.ErrEnded) {
		return nil
	}
	return err
}

func (p *refProcess) Resize(_ context.Context, s corral.Size) error {
	switch {
	case p.bad("resizes nothing"):
		return nil
	case p.tty == nil:
		return fmt.Errorf("resize %s, which has no terminal: %w", p.info.ID, errors.ErrUnsupported)
	}
	return pty.Setsize(p.tty, &pty.Winsize{Rows: s.Rows, Cols: s.Cols})
}

func (p *refProcess) Wait(ctx context.Context) (corral.Exit, error) {
	if p.bad("lets only one wait") {
		first := false
		p.waited.Do(func() { first = true })
		if !first {
			return corral.Exit{}, corral.ErrLost
		}
	}
	done := ctx.Done()
	if p.bad("cannot cancel Wait") {
		done = nil
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-done:
		if p.bad("ends the command when a call is cancelled") {
			_ = p.signalTree(syscall.SIGKILL)
		}
		return corral.Exit{}, fmt.Errorf("wait for %s: %w", p.info.ID, ctx.Err())
	}
}

func (p *refProcess) Remove(context.Context) error {
	if !p.ended() && !p.bad("removes what runs") {
		return corral.Errorf(corral.ErrRunning, "wait for it or kill it", "remove %s: it is running", p.info.ID)
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if p.procs[p.info.ID] != p {
		if p.bad("removes only once") {
			return corral.ErrNotFound
		}
		return nil
	}
	if !p.bad("removes nothing") {
		delete(p.procs, p.info.ID)
	}
	return p.log.remove()
}
