// Package runner runs one command from start to end, on any corral.Executor: it passes
// its input, copies its output, stops it when the context ends, and returns the result.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/leftover"
)

// Options configure the input and output of Run.
type Options struct {
	// Stdin is copied to the command; nil is an empty input. On a terminal the end of
	// the input is typed again, after pauses of up to a second, until the command has
	// ended. So each program that reads it finds the end, as it would with a pipe. Run
	// never waits for a Read that blocks, such as that of a terminal, but cannot end it
	// either: one goroutine lives until that Read returns, and drops its data. Close
	// the reader if that matters.
	Stdin io.Reader

	// Stdout and Stderr get the output as it comes, from one goroutine; nil drops it.
	// Run waits for a Write. Bytes that the log dropped are missing here without a
	// mark; see Result.Gap.
	Stdout, Stderr io.Writer

	// MaxOutput bounds each head and each tail of the Result, in bytes. 0
	// is DefaultMaxOutput; negative keeps nothing but the count.
	MaxOutput int
}

// DefaultMaxOutput bounds the head and the tail of an Excerpt, in bytes, when
// Options.MaxOutput is 0.
const DefaultMaxOutput = 100_000

// A Result is the end of a command, and its output.
type Result struct {
	Info corral.Info
	Exit corral.Exit // the zero Exit if it is unknown how the command ended

	Excerpts
}

const (
	signalLimit = 5 * time.Second // for a signal to be sent
	killLimit   = 5 * time.Second // for a tree to end after SIGKILL
	lostDrain   = time.Second     // time without output after which a lost process's log counts as read
)

// Run starts cmd, feeds it Stdin, streams its output and waits for its end. Stdin
// decides whether it has input, and not cmd.Stdin.
//
// The error only says whether the system worked; a command that failed is a Result with
// a nil error. When ctx ends, or Stdin or a writer fails, the whole process tree is
// killed (SIGTERM, then SIGKILL after cmd.Grace) and the error says why; the Result has
// the output so far. Run removes nothing: ex still knows the process by Result.Info.ID.
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
	exit  corral.Exit             // what Wait has returned
	ended chan struct{}           // closed when Wait has returned
	reads atomic.Int64            // chunks read from the log

	// Written by stop, read after it has returned.
	stopped    bool
	lastSignal corral.Signal // the last signal sent to the process before it ended
	stopErr    error
	withheld   bool // the process has ended, and its last output does not come
}

func newRun(p corral.Process, cmd corral.Command, opt Options) *run {
	keep := opt.MaxOutput
	switch {
	case keep == 0:
		keep = DefaultMaxOutput
	case keep < 0:
		keep = 0
	}
	grace := cmp.Or(cmd.Grace, corral.DefaultGrace)
	return &run{
		p: p, grace: grace, tty: cmd.TTY != nil, opt: opt,
		got:   newCollector(keep, cmd.MergeStderr || cmd.TTY != nil),
		ended: make(chan struct{}),
	}
}

// finish owns every goroutine of a run. live ends when the command has to be stopped.
// work is for calls on the process, and ends when the process has.
func (r *run) finish(ctx context.Context) (Result, error) {
	live, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fail = fail
	work, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()

	var owned sync.WaitGroup
	owned.Go(func() { // stops the command if needed
		select {
		case <-live.Done():
			r.stop(work, release)
		case <-work.Done():
		}
	})
	var waitErr error
	owned.Go(func() { // waits for the command's end
		r.exit, waitErr = r.p.Wait(work)
		close(r.ended)
		if waitErr != nil {
			if errors.Is(waitErr, corral.ErrLost) {
				r.drainLost(work)
			}
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
	if waitErr == nil && r.lastSignal != 0 && r.exit.Signal == r.lastSignal {
		r.stopped = true // an unanswered request took effect, and was repeated
	}

	res := Result{Info: r.p.Info(), Exit: r.exit, Excerpts: r.got.excerpts()}
	return res, r.outcome(ctx, r.exit, waitErr, cause)
}

// outcome returns the error of a run.
func (r *run) outcome(ctx context.Context, exit corral.Exit, waitErr, cause error) error {
	cancelled := cause != nil && errors.Is(cause, context.Cause(ctx))
	switch {
	case cause == nil || cancelled && !r.stopped && waitErr == nil && r.stopErr == nil:
		return waitErr // it ended before it could be cancelled
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
	case r.withheld:
		return corral.Errorf(corral.ErrLost, "see whether the disk of its log is full, and attach to it by its ID",
			"the command %s has ended, but its last output has not come after %v: %w", r.p.Info().ID, killLimit, cause)
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

// Most commands print little: the buffer is small until a read fills it.
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

// drainLost gives pump time to read the output of a lost process, whose log may never
// end.
func (r *run) drainLost(work context.Context) {
	for before := int64(-1); before != r.reads.Load() && work.Err() == nil; {
		before = r.reads.Load()
		select {
		case <-work.Done():
		case <-time.After(lostDrain):
		}
	}
}

// copyTo writes a chunk, and returns the writer for the next one: nil after a failed
// write. Then the command is stopped, as by SIGPIPE.
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

// stop ends the process tree. If that fails, it calls release, so that Run no longer
// waits for it.
func (r *run) stop(work context.Context, release func()) {
	if r.grace >= 0 {
		begun := time.Now()
		switch err := r.signal(work, corral.SIGTERM); {
		case err == nil:
			r.stopped = true
			if r.endsWithin(r.grace) {
				r.stopRest(work, r.grace-time.Since(begun))
				return
			}
		case errors.Is(err, corral.ErrEnded):
			r.lastSignal = corral.SIGTERM
			r.awaitOutput(release)
			return
		case work.Err() != nil: // the process ended before the answer came
			r.lastSignal, r.stopErr = corral.SIGTERM, err
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
	case errors.Is(err, corral.ErrEnded):
		r.awaitOutput(release)
	default:
		r.lastSignal, r.stopErr = corral.SIGKILL, err
		release()
	}
}

// stopRest ends the processes that the command left when it ended within its grace. If they
// do not end, the command has not failed.
func (r *run) stopRest(work context.Context, grace time.Duration) {
	if len(r.exit.Orphans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), max(grace, 0)+killLimit)
	defer cancel()
	_ = leftover.End(ctx, r.p, grace)
}

// awaitOutput waits for the last output of a process that has ended, which does not come
// while the disk of its log is full.
func (r *run) awaitOutput(release func()) {
	if !r.endsWithin(killLimit) {
		r.withheld = true
		release()
	}
}

func (r *run) signal(work context.Context, s corral.Signal) error {
	ctx, cancel := context.WithTimeout(work, signalLimit)
	defer cancel()
	return r.p.Signal(ctx, s)
}

func (r *run) endsWithin(d time.Duration) bool {
	select {
	case <-r.ended:
		return true
	case <-time.After(d):
		return false
	}
}
