package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
)

// startTime bounds how long the engine may take to start a command.
const startTime = 2 * time.Minute

// maxArgument is what Linux allows an argument or a variable to have, with the
// NUL byte at its end (MAX_ARG_STRLEN). An engine would exit with a code of its
// own.
const maxArgument = 128 << 10

// prepare does what can be given up with ctx, and then has the command started
// in the background. On error nothing ran, and the process is forgotten.
func (p *execProcess) prepare(ctx context.Context, cmd corral.Command) error {
	spec, err := p.spec(ctx, cmd)
	if err == nil {
		err = p.findContainer(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = corral.Errorf(corral.ErrUnavailable, "", "process %s was not started: %w", p.id, ctx.Err())
	}
	if err == nil {
		// Before the start: a life that is cut off in between leaves a
		// process behind that is lost, not one that never was.
		p.rec.Info.StartedAt = execNow()
		err = p.d.records.write(p.id, p.rec)
	}
	if err != nil {
		p.notStarted(err)
		p.d.wg.Done()
		return err
	}
	go func() {
		defer p.d.wg.Done()
		p.run(cmd, spec)
	}()
	return nil
}

// spec is the command in the engine's terms.
func (p *execProcess) spec(ctx context.Context, cmd corral.Command) (ExecSpec, error) {
	prep, err := p.d.opts.Prepare(ctx, cmd)
	if err != nil {
		return ExecSpec{}, err
	}
	p.log = outlog.New(p.d.records.root, p.id, cmd.Log)
	p.tty = cmd.TTY != nil
	p.rec.Info, p.rec.Limit = p.d.opts.Info, cmd.Log
	p.rec.Info.ID, p.rec.Info.Dir = p.id, prep.Dir
	p.rec.Info.Warnings = append(append([]string(nil), prep.Warnings...), execWarning)
	spec := ExecSpec{Args: prep.Args, Env: prep.Env, Dir: prep.Dir, User: p.d.opts.User, Stdin: cmd.Stdin, TTY: p.tty}
	switch {
	case p.tty:
		spec.Rows, spec.Cols = cmd.TTY.Rows, cmd.TTY.Cols
		if spec.Rows == 0 {
			spec.Rows = corral.DefaultSize.Rows
		}
		if spec.Cols == 0 {
			spec.Cols = corral.DefaultSize.Cols
		}
	case cmd.MergeStderr: // an engine has two pipes, whose order it does not keep
		spec.Args = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, prep.Args...)
	}
	return spec, nil
}

func (p *execProcess) findContainer(ctx context.Context) error {
	id, err := p.d.opts.Container(ctx)
	if err != nil {
		return err
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.container = id
	return nil
}

// run starts the command and stays until it is over.
func (p *execProcess) run(cmd corral.Command, spec ExecSpec) {
	x, err := p.exec(spec)
	var failure *ExecFailure
	switch {
	case errors.As(err, &failure):
		p.out = newExecOutput(p.log, p.warn)
		close(p.out.ended)
		p.in = newExecInput(p.id, nil, cmd)
		p.notExecuted(failure, cmd)
		close(p.ready)
		return
	case errors.Is(err, corral.ErrLost):
		p.conclude(nil, p.lost(err.Error()))
		p.startErr = err
		close(p.ready)
		return
	case err != nil:
		p.notStarted(err)
		return
	}
	p.x, p.in, p.out = x, newExecInput(p.id, x, cmd), newExecOutput(p.log, p.warn)
	close(p.ready)
	p.supervise(cmd.Timeout)
}

// exec starts the command, once more if the container has ended meanwhile.
func (p *execProcess) exec(spec ExecSpec) (Exec, error) {
	for _, s := range slices.Concat(spec.Args, spec.Env) {
		if len(s) >= maxArgument {
			return nil, &ExecFailure{Code: 126, Text: spec.Args[0] + ": argument list too long"}
		}
	}
	ctx, cancel := context.WithTimeout(p.d.life, startTime)
	defer cancel()
	x, err := p.d.opts.Engine.Exec(ctx, p.container, spec)
	if errors.Is(err, ErrNoContainer) {
		if err := p.findContainer(ctx); err != nil {
			return nil, err
		}
		x, err = p.d.opts.Engine.Exec(ctx, p.container, spec)
	}
	if errors.Is(err, ErrNoContainer) {
		return nil, corral.Errorf(corral.ErrUnavailable, "try again", "cannot run a command in the sandbox: it ends at once: %w", err)
	}
	return x, err
}

// notStarted forgets a process of which nothing ran.
func (p *execProcess) notStarted(err error) {
	p.startErr = err
	p.warn(p.d.records.remove(p.id))
	p.d.forget(p)
	close(p.ready)
}

// notExecuted ends a process whose program could not be executed, as a shell
// does.
func (p *execProcess) notExecuted(f *ExecFailure, cmd corral.Command) {
	stream, end := corral.Stderr, "\n"
	if p.tty {
		stream, end = corral.Stdout, "\r\n"
	} else if cmd.MergeStderr {
		stream = corral.Stdout
	}
	p.out.add(p.d.life, stream, []byte("corral: "+f.Text+end))
	p.conclude(&corral.Exit{Code: f.Code, Reason: corral.ReasonExited, EndedAt: execNow()}, nil)
}

// execResult is what the engine says of a command's end.
type execResult struct {
	code int
	err  error
	at   time.Time
}

// supervise owns every goroutine of a process.
func (p *execProcess) supervise(timeout time.Duration) {
	// The streams are let go of when nobody needs them, or with this life.
	closed := context.AfterFunc(p.d.life, p.closeStreams)
	p.d.wg.Add(2)
	go func() {
		defer p.d.wg.Done()
		p.out.copy(p.d.life, p.x)
	}()
	go func() {
		defer p.d.wg.Done()
		p.in.run()
	}()
	results := make(chan execResult, 1)
	go func() { // ends with life or with the command, and supervise waits for it
		code, err := p.x.Result(p.d.life)
		results <- execResult{code, err, execNow()}
	}()

	var expiry <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expiry = timer.C
	}
	var res execResult
	expired := false
	select {
	case res = <-results:
	case <-expiry:
		res, expired = p.expire(results)
	}
	p.out.drain(p.d.life)
	p.finish(res, expired)

	p.in.stop()
	_ = p.x.CloseWrite() // of a connection that may be gone: it is of no use any more
	<-p.out.ended        // a descendant may hold it; the engine decides how long
	if closed() {
		p.closeStreams()
	}
}

func (p *execProcess) closeStreams() {
	p.in.stop()
	p.warn(p.x.Close())
}

// expire kills the container, however often that takes. killed is false if the
// command ended before that.
func (p *execProcess) expire(results <-chan execResult) (res execResult, killed bool) {
	for {
		select {
		case res := <-results:
			return res, false
		default:
		}
		err := p.d.kill(p)
		if err == nil {
			return <-results, true
		}
		p.warn(err)
		select {
		case res := <-results:
			return res, false
		case <-time.After(killAgain):
		}
	}
}

// finish settles how the process ended.
func (p *execProcess) finish(res execResult, killed bool) {
	exit := corral.Exit{Code: res.code, Reason: corral.ReasonExited, EndedAt: res.at}
	switch {
	case p.d.life.Err() != nil:
		p.conclude(nil, p.lost("it was running when its sandbox was closed"))
	case killed:
		exit.Reason = corral.ReasonTimeout
		if res.err != nil || res.code == sigkilled {
			exit.Code, exit.Signal = -1, corral.SIGKILL
		}
		p.conclude(&exit, nil)
	case res.err != nil:
		p.conclude(nil, p.lost(res.err.Error()))
	case p.doomed.Load() && res.code == sigkilled:
		p.conclude(nil, p.lost("the time of another command was up, and the sandbox was killed"))
	case p.out.over() && p.out.err != nil:
		p.conclude(nil, p.lost(fmt.Sprintf("its output was cut off (%v), and with it perhaps its input", p.out.err)))
	default:
		p.conclude(&exit, nil)
	}
}

// sigkilled is the exit code that an engine gives for SIGKILL.
const sigkilled = 128 + int(corral.SIGKILL)

// conclude ends the log, writes down how the process ended, and says so. If it
// cannot be written down, this life still knows.
func (p *execProcess) conclude(exit *corral.Exit, lost error) {
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
		err := p.d.records.write(p.id, rec)
		p.warn(err)
		if err == nil {
			defer p.d.forget(p)
		}
	} else {
		p.err = lost
		defer p.d.forget(p)
	}
	close(p.done)
}

func (p *execProcess) warn(err error) {
	if err != nil {
		p.d.log.Error("trouble with a command in the sandbox", "id", p.id, "error", err)
	}
}

// execNow is a time that a record holds exactly.
func execNow() time.Time { return time.Now().UTC().Round(0) }
