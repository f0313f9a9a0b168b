// Package execdriver is the last resort: a corral.Executor over an engine's exec API,
// for images in which no warden can run. What that API lacks is lacking here, and
// answered with errors.ErrUnsupported; docs/reference/exec-driver.md is the list.
package execdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/streamexec"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Options of a Driver. Log is optional.
type Options struct {
	Engine engine.ExecEngine
	// Enter returns a container that runs, made if need be, and what is to be executed
	// in it for a valid command.
	Enter func(ctx context.Context, cmd corral.Command) (container string, plan pathenv.Plan, err error)
	// Kill ends that container and whatever runs in it. The next one of Enter
	// is another one.
	Kill func(ctx context.Context, id string) error

	Dir  string      // holds logs and records; made if it does not exist
	Info corral.Info // what is the same for every process here
	User string      // uid:gid; empty: the container's
	// OutputRate is sandbox.Resources.OutputRate at the moment. Nil: 0.
	OutputRate func() int64
	Log        *slog.Logger
}

// A Driver is the corral.Executor of one sandbox.
type Driver struct {
	*streamexec.Processes
	opts Options

	mu   sync.Mutex
	live map[*stream]struct{} // those that are being started or run
}

// New makes a Driver, with what an earlier one left in its directory.
func New(opts Options) (*Driver, error) {
	d := &Driver{opts: opts, live: map[*stream]struct{}{}}
	var err error
	d.Processes, err = streamexec.Open(streamexec.Options{
		Dir: opts.Dir, Retain: wardenexec.Retain, Name: "the sandbox",
		Signal: noSignals, Unseen: unseen, Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// warning goes with every process.
const warning = "This sandbox runs commands through its engine's exec API: they cannot be signalled, a time-out ends every command in the sandbox, and what still runs is lost when Corral ends."

// withoutWarden is the hint of every answer that something is not supported.
const withoutWarden = "use the sandbox driver fds or frames, for which the image must let a warden run"

// noSignals: the engine's exec API sends none. A process that has ended
// without a descendant holding its output has, as far as can be seen, left
// nothing to signal.
func noSignals(_ context.Context, info corral.Info, s corral.Signal, running, held bool) error {
	if !running && !held {
		return corral.Errorf(corral.ErrEnded, "", "process %s has ended", info.ID)
	}
	return corral.Errorf(errors.ErrUnsupported, withoutWarden, "cannot send %v to %s: the engine's exec API sends no signals", s, info.ID)
}

// unseen is the error of a process whose end no life of this program saw.
func unseen(id string) error {
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice. To keep commands across restarts, "+withoutWarden,
		"it is not known how process %s ended: no gateway was there, and finding it again through the engine's exec API is an %w", id, errors.ErrUnsupported)
}

// Start implements corral.Executor.
func (d *Driver) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return d.Processes.Start(ctx, d, cmd)
}

// maxArgument is what Linux allows an argument or a variable to have, with the
// NUL byte at its end (MAX_ARG_STRLEN). An engine would exit with a code of its
// own.
const maxArgument = 128 << 10

// Prepare implements streamexec.Place.
func (d *Driver) Prepare(ctx context.Context, cmd corral.Command) (streamexec.Job, error) {
	container, plan, err := d.opts.Enter(ctx, cmd)
	if err != nil {
		return streamexec.Job{}, err
	}
	info := d.opts.Info
	info.Dir, info.Notice = plan.Dir, plan.Notice
	info.Warnings = append(append([]string(nil), plan.Warnings...), warning)
	return streamexec.Job{Info: info, Start: func(ctx context.Context, info *corral.Info) (streamexec.Stream, error) {
		return d.start(ctx, info.ID, cmd, container, plan)
	}}, nil
}

// spec is the command in the engine's terms.
func (d *Driver) spec(cmd corral.Command, plan pathenv.Plan) engine.ExecSpec {
	spec := engine.ExecSpec{Args: plan.Args, Env: plan.Env.Vars, Dir: plan.Dir, User: d.opts.User, Stdin: cmd.Stdin, TTY: cmd.TTY != nil}
	switch {
	case spec.TTY:
		spec.Rows, spec.Cols = cmd.TTY.Rows, cmd.TTY.Cols
		spec.Rows = cmp.Or(spec.Rows, corral.DefaultSize.Rows)
		spec.Cols = cmp.Or(spec.Cols, corral.DefaultSize.Cols)
	case cmd.MergeStderr: // an engine has two pipes, whose order it does not keep
		spec.Args = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, plan.Args...)
	}
	return spec
}

// start starts a command, once more if the container has ended meanwhile.
func (d *Driver) start(ctx context.Context, id string, cmd corral.Command, container string, plan pathenv.Plan) (_ *stream, err error) {
	spec := d.spec(cmd, plan)
	for _, list := range [][]string{spec.Args, spec.Env} {
		for _, s := range list {
			if len(s) >= maxArgument {
				return nil, &engine.ExecFailure{Code: 126, Text: spec.Args[0] + ": argument list too long"}
			}
		}
	}
	s := &stream{d: d, id: id, container: container}
	if d.opts.OutputRate != nil {
		s.pace = outlog.NewPace(d.opts.OutputRate())
	}
	d.enter(s)
	defer func() {
		if err != nil {
			d.leave(s)
		}
	}()
	s.Exec, err = d.opts.Engine.Exec(ctx, container, spec)
	if errors.Is(err, engine.ErrNoContainer) {
		if container, plan, err = d.opts.Enter(ctx, cmd); err != nil {
			return nil, err
		}
		d.move(s, container)
		s.Exec, err = d.opts.Engine.Exec(ctx, container, d.spec(cmd, plan))
	}
	if errors.Is(err, engine.ErrNoContainer) {
		return nil, corral.Errorf(corral.ErrUnavailable, "try again", "cannot run a command in the sandbox: it ends at once: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Busy reports whether a command runs in a container.
func (d *Driver) Busy(container string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.live {
		if s.container == container {
			return true
		}
	}
	return false
}

func (d *Driver) enter(s *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[s] = struct{}{}
}

func (d *Driver) leave(s *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.live, s)
}

func (d *Driver) move(s *stream, container string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.container, s.doomed = container, false
}

// stream is a command that runs; it is a streamexec.Stream.
type stream struct {
	engine.Exec
	d    *Driver
	id   string
	pace *outlog.Pace

	container string // guarded by d.mu
	doomed    bool   // the same; its container is killed for the sake of another
}

func (s *stream) Read(p []byte) (int, corral.Stream, error) {
	n, stream, err := s.Exec.Read(p)
	return n, corral.Stream(stream), err
}

// Took implements streamexec.Paced.
func (s *stream) Took(n int64) time.Duration { return s.pace.Took(n) }

func (s *stream) Resize(ctx context.Context, size corral.Size) error {
	return s.Exec.Resize(ctx, size.Rows, size.Cols)
}

// Result is what the engine says of a command's end: 128+n for a signal.
func (s *stream) Result(ctx context.Context) (corral.Exit, error) {
	code, err := s.Exec.Result(ctx)
	return corral.Exit{Code: code}, err
}

// sigkilled is the exit code that an engine gives for SIGKILL.
const sigkilled = 128 + int(corral.SIGKILL)

// killTime bounds one attempt to kill a container.
const killTime = time.Minute

// Expire kills the container. The others in it did not end by themselves.
func (s *stream) Expire(ctx context.Context, _ time.Duration) (struck bool, err error) {
	s.d.mu.Lock()
	for q := range s.d.live {
		if q != s && q.container == s.container {
			q.doomed = true
		}
	}
	container := s.container
	s.d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := s.d.opts.Kill(ctx, container); err != nil {
		return false, fmt.Errorf("cannot kill the container of process %s, whose time is up: %w", s.id, err)
	}
	return true, nil
}

func (s *stream) Settle(exit corral.Exit, err error, struck bool) (corral.Exit, error) {
	s.d.mu.Lock()
	doomed := s.doomed
	s.d.mu.Unlock()
	switch {
	case struck && (err != nil || exit.Code == sigkilled):
		return corral.Exit{Code: -1, Signal: corral.SIGKILL}, nil
	case err == nil && doomed && exit.Code == sigkilled:
		return exit, errors.New("the time of another command was up, and the sandbox was killed")
	}
	return exit, err
}

func (s *stream) Close() error {
	s.d.leave(s)
	return s.Exec.Close()
}
