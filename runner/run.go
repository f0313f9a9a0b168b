// Package runner runs one command from its start to its end, on any corral.Executor:
// it feeds its input, copies its output, stops it when the context ends, and returns
// what came of it.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
)

// Options says what Run does with a command's input and output.
type Options struct {
	// Stdin is copied to the command; nil is an empty input. The end of a
	// terminal's input is typed again, after pauses of up to a second, until
	// the command has ended: whatever reads it, and however often, finds it
	// at its end, as it would that of a pipe. Run never
	// waits for a Read that blocks, such as that of a terminal, but cannot
	// end it either: the one goroutine in it lives until the Read returns,
	// and drops what it read. Close the reader if that matters.
	Stdin io.Reader

	// Stdout and Stderr get the output as it comes, from one goroutine; nil drops
	// it. Run waits for a Write. Bytes that the log itself had to drop are missing
	// here without a mark; see Result.Gap.
	Stdout, Stderr io.Writer

	// MaxOutput bounds each head and each tail of the Result, in bytes. 0
	// is DefaultMaxOutput; negative keeps nothing but the count.
	MaxOutput int
}

// DefaultMaxOutput is how many bytes the head and the tail of an Excerpt hold
// when Options.MaxOutput is 0.
const DefaultMaxOutput = 100_000

// A Result is a command that has ended, and its output.
type Result struct {
	Info corral.Info
	Exit corral.Exit // the zero Exit if it is not known how the command ended

	Excerpts
}

const (
	signalLimit = 5 * time.Second // for a signal to be sent
	killLimit   = 5 * time.Second // for a tree to end after SIGKILL
	lostDrain   = time.Second     // without a byte, until a lost process's log is taken to be read
)

// Run starts cmd, feeds it Stdin, streams its output and waits for its end.
// Whether it has input is up to Stdin, not to cmd.Stdin.
//
// The error says whether the system worked, as ever; a command that failed is
// a Result with a nil error. When ctx ends, or Stdin or a writer fails, the
// whole process tree is killed (SIGTERM, then SIGKILL after cmd.Grace) and the
// error says so; the Result has what there was until then. Run removes
// nothing: the process stays known to ex by Result.Info.ID.
func Run(ctx context.Context, ex corral.Executor, cmd corral.Command, opt Options) (Result, error) {
	cmd.Stdin = opt.Stdin != nil
	p, err := ex.Start(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	return newRun(p, cmd, opt).finish(ctx)
}

type run struct {
	p     corral.Process
	grace time.Duration
	tty   bool
	opt   Options

	got collector

	fail  context.CancelCauseFunc // stops the command
	ended chan struct{}           // closed when Wait has returned
	reads atomic.Int64            // chunks read from the log

	// Written by stop, read after it has returned.
	stopped bool
	told    corral.Signal // that a process has had which has ended by now, perhaps by it
	stopErr error
}

func newRun(p corral.Process, cmd corral.Command, opt Options) *run {
	keep := opt.MaxOutput
	switch {
	case keep == 0:
		keep = DefaultMaxOutput
	case keep < 0:
		keep = 0
	}
	grace := cmd.Grace
	if grace == 0 {
		grace = corral.DefaultGrace
	}
	return &run{
		p: p, grace: grace, tty: cmd.TTY != nil, opt: opt,
		got:   newCollector(keep, cmd.MergeStderr || cmd.TTY != nil),
		ended: make(chan struct{}),
	}
}

// finish owns every goroutine of a run. live ends when the command has to be
// stopped; work carries the calls on the process and goes on until it has.
func (r *run) finish(ctx context.Context) (Result, error) {
	live, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fail = fail
	work, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()

	var owned sync.WaitGroup
	owned.Go(func() { // stops the command if need be
		select {
		case <-live.Done():
			r.stop(work, release)
		case <-work.Done():
		}
	})
	var exit corral.Exit
	var waitErr error
	owned.Go(func() { // learns how the command ended
		exit, waitErr = r.p.Wait(work)
		close(r.ended)
		if waitErr != nil {
			r.drainLost(work)
			release()
		}
	})
	input := feed(work, r.p, r.tty, r.opt.Stdin, fail)

	if err := r.pump(work); err != nil && work.Err() == nil {
		fail(fmt.Errorf("cannot read the command's output: %w", err))
	}
	<-r.ended
	cause := context.Cause(live) // before the deferred fail(nil) sets one
	release()
	owned.Wait()
	input.end()
	if waitErr == nil && r.told != 0 && exit.Signal == r.told {
		r.stopped = true // by a request that was repeated, as its answer was lost
	}

	res := Result{Info: r.p.Info(), Exit: exit, Excerpts: r.got.excerpts()}
	return res, r.outcome(ctx, exit, waitErr, cause)
}

// outcome is the error of a run when everything is known.
func (r *run) outcome(ctx context.Context, exit corral.Exit, waitErr, cause error) error {
	cancelled := cause != nil && errors.Is(cause, context.Cause(ctx))
	switch {
	case cause == nil || cancelled && !r.stopped && waitErr == nil && r.stopErr == nil:
		return waitErr // it had ended before it could be cancelled
	case cancelled && !errors.Is(cause, ctx.Err()):
		cause = fmt.Errorf("cancelled: %w (%w)", cause, ctx.Err())
	case cancelled:
		cause = fmt.Errorf("cancelled: %w", cause)
	}
	switch {
	case waitErr == nil && r.stopped:
		return fmt.Errorf("%w; the command was stopped: %v", cause, exit)
	case waitErr == nil:
		return cause
	case r.stopErr != nil:
		hint := "attach to it by its ID"
		if errors.Is(r.stopErr, errors.ErrUnsupported) {
			hint = "to end it, remove the sandbox it runs in"
		}
		return corral.Errorf(corral.ErrLost, hint,
			"the command %s may still run: %w", r.p.Info().ID, fmt.Errorf("%w; cannot stop it: %w", cause, r.stopErr))
	}
	return fmt.Errorf("%w; then: %w", cause, waitErr)
}

// Most commands print little: what is read at a time is little until one fills it.
const (
	firstRead = 4 << 10
	mostRead  = 32 << 10
)

// pump reads the log to its end.
func (r *run) pump(ctx context.Context) error {
	stdout, stderr := r.opt.Stdout, r.opt.Stderr
	log, buf := r.p.Log(), make([]byte, firstRead)
	for {
		c, err := log.Read(ctx, r.got.next, buf)
		r.reads.Add(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r.got.add(c)
		if c.Stream == corral.Stderr {
			stderr = r.copyTo(stderr, c)
		} else {
			stdout = r.copyTo(stdout, c)
		}
		if len(c.Data) == len(buf) && len(buf) < mostRead {
			buf = make([]byte, mostRead)
		}
	}
}

// drainLost gives pump time to read what there is of a lost process, whose log
// may never end.
func (r *run) drainLost(work context.Context) {
	for before := int64(-1); before != r.reads.Load() && work.Err() == nil; {
		before = r.reads.Load()
		select {
		case <-work.Done():
		case <-time.After(lostDrain):
		}
	}
}

// copyTo passes a chunk on, and returns where the next one goes: nowhere once
// a write has failed. A command whose output is not taken any more is stopped, as
// SIGPIPE would.
func (r *run) copyTo(w io.Writer, c corral.Chunk) io.Writer {
	if w == nil {
		return nil
	}
	if _, err := w.Write(c.Data); err != nil {
		r.fail(fmt.Errorf("cannot write the command's %s: %w", c.Stream, err))
		return nil
	}
	return w
}

// stop ends the process tree. If that fails, it calls release, so that Run waits for
// it no longer.
func (r *run) stop(work context.Context, release func()) {
	if r.grace >= 0 {
		switch err := r.signal(work, corral.SIGTERM); {
		case err == nil:
			r.stopped = true
			if r.endsWithin(r.grace) {
				return
			}
		case errors.Is(err, corral.ErrEnded):
			r.told = corral.SIGTERM
			return
		case work.Err() != nil: // its end was heard of before the answer
			r.told, r.stopErr = corral.SIGTERM, err
			return
		}
	}
	switch err := r.signal(work, corral.SIGKILL); {
	case err == nil:
		r.stopped = true
		if !r.endsWithin(killLimit) {
			r.stopErr = fmt.Errorf("it has not ended %v after %v", killLimit, corral.SIGKILL)
			release()
		}
	case !errors.Is(err, corral.ErrEnded):
		r.told, r.stopErr = corral.SIGKILL, err
		release()
	}
}

func (r *run) signal(work context.Context, s corral.Signal) error {
	ctx, cancel := context.WithTimeout(work, signalLimit)
	defer cancel()
	return r.p.Signal(ctx, s)
}

func (r *run) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.ended:
		return true
	case <-t.C:
		return false
	}
}
