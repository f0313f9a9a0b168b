package fakeexec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// process implements corral.Process.
type process struct {
	ex   *Executor
	cmd  corral.Command
	info corral.Info
	log  *memLog

	stdin       chan []byte
	stdinClosed chan struct{}
	closeStdin  sync.Once

	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	once   sync.Once
	exit   corral.Exit // once ctx has ended

	mu      sync.Mutex
	ignored []corral.Signal
	size    corral.Size
}

func newProcess(ex *Executor, cmd corral.Command, pid int) *process {
	p := &process{
		ex: ex, cmd: cmd, info: ex.Info, log: newMemLog(cmd.Log),
		stdin: make(chan []byte), stdinClosed: make(chan struct{}),
	}
	p.info.ID, p.info.PID, p.info.StartedAt, p.info.Digest = cmd.ID, pid, time.Now(), cmd.Digest()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if cmd.TTY != nil {
		p.size = *cmd.TTY
		if p.size == (corral.Size{}) {
			p.size = corral.DefaultSize
		}
	} else if !cmd.Stdin {
		p.shutStdin()
	}
	return p
}

// run lives as long as the program; a time-out is enforced beside it.
func (p *process) run(program Program) {
	var late atomic.Bool
	if p.cmd.Timeout > 0 {
		term := time.AfterFunc(p.cmd.Timeout, func() {
			late.Store(true)
			p.kill(corral.SIGTERM, corral.ReasonTimeout)
		})
		defer term.Stop()
		grace := p.cmd.Grace
		if grace == 0 {
			grace = corral.DefaultGrace
		}
		kill := time.AfterFunc(p.cmd.Timeout+max(grace, 0), func() { p.kill(corral.SIGKILL, corral.ReasonTimeout) })
		defer kill.Stop()
	}
	stderr := corral.Stderr
	if p.cmd.TTY != nil || p.cmd.MergeStderr {
		stderr = corral.Stdout
	}
	code := program(&IO{
		Context: p.ctx, Command: p.cmd, Stdin: &stdinReader{p: p}, p: p,
		Stdout: streamWriter{p, corral.Stdout}, Stderr: streamWriter{p, stderr},
	})
	why := corral.ReasonExited
	if late.Load() {
		why = corral.ReasonTimeout
	}
	p.end(corral.Exit{Code: code, Reason: why})
}

// end is the process's end if it has not ended.
func (p *process) end(how corral.Exit) {
	p.once.Do(func() {
		how.StartedAt, how.EndedAt = p.info.StartedAt, time.Now()
		p.exit = how
		p.log.end()
		p.cancel()
	})
}

// kill ends the process unless it ignores the signal.
func (p *process) kill(s corral.Signal, why corral.Reason) {
	p.mu.Lock()
	ignored := slices.Contains(p.ignored, s)
	p.mu.Unlock()
	if !ignored || s == corral.SIGKILL {
		p.end(corral.Exit{Code: -1, Signal: s, Reason: why})
	}
}

func (p *process) Info() corral.Info { return p.info }

// Origin is for package origin.
func (p *process) Origin() *origin.Origin { return p.ex.Origin }

func (p *process) Log() corral.Log { return faultyLog{p} }

func (p *process) Write(ctx context.Context, data []byte) (int, error) {
	if err := p.ex.check(ctx, OpWrite, p.info.ID); err != nil {
		return 0, err
	}
	if p.ctx.Err() != nil {
		return 0, p.errorf(corral.ErrEnded, "has ended")
	}
	select { // alone first: with a reader waiting as well, select would toss a coin
	case <-p.stdinClosed:
		return 0, p.errorf(corral.ErrStdinClosed, "has its standard input closed")
	default:
	}
	select {
	case p.stdin <- slices.Clone(data):
		return len(data), nil
	case <-p.stdinClosed:
		return 0, p.errorf(corral.ErrStdinClosed, "has its standard input closed")
	case <-p.ctx.Done():
		return 0, p.errorf(corral.ErrEnded, "has ended")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (p *process) CloseStdin(ctx context.Context) error {
	if err := p.ex.check(ctx, OpCloseStdin, p.info.ID); err != nil {
		return err
	}
	p.shutStdin()
	return nil
}

func (p *process) shutStdin() { p.closeStdin.Do(func() { close(p.stdinClosed) }) }

// Signal ends the process by any signal that does so by default and is not
// ignored.
func (p *process) Signal(ctx context.Context, s corral.Signal) error {
	if err := p.ex.check(ctx, OpSignal, p.info.ID); err != nil {
		return err
	}
	if !s.Valid() {
		return corral.Errorf(corral.ErrInvalid, "", "no signal has the number %d", int(s))
	}
	if p.ctx.Err() != nil {
		return p.errorf(corral.ErrEnded, "has ended")
	}
	switch s {
	case corral.SIGCHLD, corral.SIGCONT, corral.SIGSTOP, corral.SIGTSTP, corral.SIGWINCH:
	default:
		p.kill(s, corral.ReasonExited)
	}
	return nil
}

func (p *process) Resize(ctx context.Context, size corral.Size) error {
	if err := p.ex.check(ctx, OpResize, p.info.ID); err != nil {
		return err
	}
	if p.cmd.TTY == nil {
		return errors.ErrUnsupported
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	return nil
}

func (p *process) Wait(ctx context.Context) (corral.Exit, error) {
	if err := p.ex.fault(OpWait, p.info.ID); err != nil {
		return corral.Exit{}, err
	}
	select {
	case <-p.ctx.Done():
		return p.exit, nil
	case <-ctx.Done():
		return corral.Exit{}, ctx.Err()
	}
}

func (p *process) Remove(ctx context.Context) error {
	if err := p.ex.check(ctx, OpRemove, p.info.ID); err != nil {
		return err
	}
	if p.ctx.Err() == nil {
		return p.errorf(corral.ErrRunning, "is running")
	}
	p.ex.forget(p)
	return nil
}

func (p *process) errorf(kind error, what string) error {
	return corral.Errorf(kind, "", "process %s %s", p.info.ID, what)
}
