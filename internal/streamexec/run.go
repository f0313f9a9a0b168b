package streamexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// startTime bounds the start of a command at a place.
const startTime = 2 * time.Minute

// prepare does the steps that ctx and Close can cancel, and then starts the command in the
// background. On error nothing ran, and the process is forgotten.
func (p *process) prepare(ctx context.Context, place Place, cmd corral.Command) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.x.life, cancel)()
	job, err := place.Prepare(ctx, cmd)
	if p.x.life.Err() != nil {
		err = p.x.errClosed()
	} else if err == nil && ctx.Err() != nil {
		err = corral.Errorf(corral.ErrUnavailable, "", "process %s was not started: %w", p.id, ctx.Err())
	}
	if err == nil {
		p.log = outlog.New(p.x.records.root, p.id, cmd.Log)
		p.tty = cmd.TTY != nil
		p.rec.Info, p.rec.Limit = job.Info, cmd.Log
		// Write the record before the start: if the program dies in between, the
		// process is lost, and not unknown.
		p.rec.Info.ID, p.rec.Info.StartedAt = p.id, now()
		err = p.x.records.write(p.id, p.rec)
	}
	if err != nil {
		p.notStarted(err)
		p.x.wg.Done()
		return err
	}
	go func() {
		defer p.x.wg.Done()
		p.run(cmd, job)
	}()
	return nil
}

// run starts the command and stays until it has ended.
func (p *process) run(cmd corral.Command, job Job) {
	ctx, cancel := context.WithTimeout(p.x.life, startTime)
	info := p.rec.Info
	stream, err := job.Start(ctx, &info)
	cancel()
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		p.out = newOutput(p.log, p.warn)
		close(p.out.ended)
		p.in = newInput(p.id, nil, cmd)
		p.notExecuted(failure, cmd)
		close(p.ready)
		return
	case errors.Is(err, corral.ErrLost):
		p.loses(err.Error())
		p.startErr = err
		close(p.ready)
		return
	case err != nil:
		p.notStarted(err)
		return
	}
	p.rec.Info = info
	p.stream, p.in, p.out = stream, newInput(p.id, stream, cmd), newOutput(p.log, p.warn)
	close(p.ready)
	p.supervise(cmd)
}

// notStarted forgets a process that did not run.
func (p *process) notStarted(err error) {
	p.startErr = err
	p.warn(p.x.records.remove(p.id))
	p.x.forget(p)
	close(p.ready)
}

// notExecuted ends a process whose program could not be executed, with the exit code of
// a shell.
func (p *process) notExecuted(f *Failure, cmd corral.Command) {
	stream, end := corral.Stderr, "\n"
	if p.tty {
		stream, end = corral.Stdout, "\r\n"
	} else if cmd.MergeStderr {
		stream = corral.Stdout
	}
	p.out.add(p.x.life, stream, []byte("corral: "+f.Text+end))
	p.conclude(&corral.Exit{Code: f.Code, Reason: corral.ReasonExited, EndedAt: now()}, nil)
}

// result is the place's report about a command's end.
type result struct {
	exit corral.Exit
	err  error
	at   time.Time
}

// supervise owns every goroutine of a process.
func (p *process) supervise(cmd corral.Command) {
	// Close the streams when they are not needed any more, or at the end of this life.
	closed := context.AfterFunc(p.x.life, p.closeStreams)
	p.x.wg.Add(2)
	go func() {
		defer p.x.wg.Done()
		p.out.copy(p.x.life, p.stream)
	}()
	go func() {
		defer p.x.wg.Done()
		p.in.run()
	}()
	results := make(chan result, 1)
	go func() { // ends with life or with the command, and supervise waits for it
		exit, err := p.stream.Result(p.x.life)
		results <- result{exit, err, now()}
	}()

	var expiry <-chan time.Time
	if cmd.Timeout > 0 {
		expiry = time.After(cmd.Timeout)
	}
	var res result
	struck := false
	select {
	case res = <-results:
	case <-expiry:
		res, struck = p.expire(cmd.Grace, results)
	}
	open := closed() // from here on the end of this life does not cut off the last output
	p.finish(res, struck, open && p.out.drain())
	if open {
		closed = context.AfterFunc(p.x.life, p.closeStreams)
	}

	p.in.stop()
	_ = p.stream.CloseWrite() // the connection may be gone
	<-p.out.ended             // a descendant may hold it; the place decides how long
	if closed() {
		p.closeStreams()
	}
}

func (p *process) closeStreams() {
	p.in.stop()
	p.warn(p.stream.Close())
}

// expireAgain is the pause between two attempts to end a command.
const expireAgain = time.Second

// expire ends the command, and retries until it has ended. struck is false if it ended
// before that.
func (p *process) expire(grace time.Duration, results <-chan result) (res result, struck bool) {
	switch {
	case grace == 0:
		grace = corral.DefaultGrace
	case grace < 0:
		grace = 0
	}
	for {
		select {
		case res := <-results:
			return res, struck
		default:
		}
		hit, err := p.stream.Expire(p.x.life, grace)
		struck = struck || hit
		if err == nil {
			return <-results, struck
		}
		p.warn(err)
		select {
		case res := <-results:
			return res, struck
		case <-time.After(expireAgain):
		}
	}
}

// finish determines how the process ended, and concludes it. whole is false if the end of
// this life has cut off the output.
func (p *process) finish(res result, struck, whole bool) {
	exit, err := p.stream.Settle(res.exit, res.err, struck)
	exit.EndedAt, exit.Reason = res.at, corral.ReasonExited
	if struck {
		exit.Reason = corral.ReasonTimeout
	}
	switch {
	case !whole, err != nil && p.x.life.Err() != nil:
		p.conclude(nil, p.lost(fmt.Sprintf("it was running when %s was closed", p.x.opts.Name)))
	case err != nil:
		p.loses(err.Error())
	case !struck && p.out.over() && p.out.err != nil:
		p.loses(fmt.Sprintf("its output was cut off (%v), and with it perhaps its input", p.out.err))
	default:
		p.conclude(&exit, nil)
	}
}

// loses concludes a process whose end will never be known.
func (p *process) loses(why string) {
	p.rec.Lost = why
	p.warn(p.x.records.write(p.id, p.rec))
	p.conclude(nil, p.lost(why))
}

// conclude ends the log, records how the process ended, and closes done. If the record
// cannot be written, at least this life knows the end.
func (p *process) conclude(exit *corral.Exit, lost error) {
	if p.out != nil {
		p.out.seal()
	} else {
		p.log.End()
	}
	if exit != nil {
		exit.StartedAt = p.rec.Info.StartedAt
		p.exit = *exit
		rec := p.rec
		rec.Exit = exit
		err := p.x.records.write(p.id, rec)
		p.warn(err)
		if err == nil {
			defer p.x.forget(p)
		}
	} else {
		p.err = lost
		defer p.x.forget(p)
	}
	close(p.done)
}

func (p *process) warn(err error) {
	if err != nil {
		p.x.log.Error("trouble with a command", "at", p.x.opts.Name, "id", p.id, "error", err)
	}
}

// now returns the time with the precision of a record.
func now() time.Time { return time.Now().UTC().Round(0) }
