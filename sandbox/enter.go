package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
)

// noConnection is wardenexec.Options.Connect of what is over.
func noConnection(context.Context, bool) (wire.Conn, error) { return nil, wardenexec.ErrGone }

// enter returns the box in which to start a command, held, or another executor
// that starts it.
func (e *Executor) enter(ctx context.Context, cmd corral.Command) (*box, corral.Executor, error) {
	e.mu.Lock()
	closed := e.closed
	var b *box
	if len(e.boxes) == 1 || cmd.ID == "" { // else the ID may belong to one that is left
		b = e.hold(cmd.ID)
	}
	e.mu.Unlock()
	if closed {
		return nil, nil, errClosed
	}
	if b != nil {
		e.touch()
		return b, nil, nil
	}
	return e.enterSlowly(ctx, cmd)
}

// enterSlowly is enter where it takes more than a look.
func (e *Executor) enterSlowly(ctx context.Context, cmd corral.Command) (*box, corral.Executor, error) {
	if err := cmd.Validate(); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "", "the command was not started: %w", err)
	}
	if _, err := e.prepare(ctx, cmd); err != nil { // no container for what cannot be started
		return nil, nil, err
	}
	if cmd.ID != "" {
		b, x, err := e.find(ctx, cmd.ID)
		if err == nil && x == e.past {
			if _, ended, kerr := e.records.Known(cmd.ID); !ended {
				x, err = nil, kerr // no box has it
			}
		}
		if err != nil || b != nil || x != nil {
			return b, x, err
		}
	}
	e.touch()
	if e.usesExec() {
		x, err := e.execs(true)
		return nil, x, err
	}
	e.mu.Lock()
	b := e.hold(cmd.ID)
	e.mu.Unlock()
	if b != nil {
		return b, nil, nil
	}
	b, err := e.ready(ctx, cmd.ID, false)
	if err != nil {
		return nil, nil, err
	}
	if b.warden == nil {
		e.leave(b, cmd.ID)
		x, err := e.execs(true)
		return nil, x, err
	}
	return b, nil, nil
}

// usesExec reports whether commands go through the engine's exec API, which
// asks for a container with each of them.
func (e *Executor) usesExec() bool {
	set := e.set.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	return set.Driver == DriverExec || e.current != nil && e.current.warden == nil && e.current.set == set
}

// find returns the box that has a process, held, or what else knows of it:
// e.past if nothing does.
func (e *Executor) find(ctx context.Context, id string) (*box, corral.Executor, error) {
	started, ended, err := e.records.Known(id)
	if err != nil {
		return nil, nil, err
	}
	if !started {
		x, err := e.execs(false)
		if err != nil {
			return nil, nil, err
		}
		if x != nil {
			if _, err := x.Attach(ctx, id); !errors.Is(err, corral.ErrNotFound) {
				return nil, x, nil
			}
		}
		return nil, e.past, nil
	}
	if ended {
		return nil, e.past, nil
	}
	if err := e.openAll(ctx); err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, b := range e.open() {
		if b.warden == nil {
			continue
		}
		e.mu.Lock()
		b.hold("")
		e.mu.Unlock()
		has, err := b.warden.Has(ctx, id)
		if has {
			e.mu.Lock()
			b.hold(id)
			e.mu.Unlock()
		}
		e.leave(b, "")
		if has {
			return b, nil, nil
		}
		errs = append(errs, err)
	}
	return nil, e.past, errors.Join(errs...)
}

// tracking is the box in which a process is being started, or runs, as far as
// this life knows. e.mu is held.
func (e *Executor) tracking(id string) *box {
	if id == "" {
		return nil
	}
	for _, b := range e.boxes {
		if b.ids[id] > 0 || b.warden != nil && b.warden.Tracks(id) {
			return b
		}
	}
	return nil
}

// hold holds the box of an ID that is being started, or the one that commands go
// to. It is nil if there is none that is as configured. e.mu is held.
func (e *Executor) hold(id string) *box {
	b := e.tracking(id)
	if b == nil || b.dead {
		b = e.current
		if b == nil || b.warden == nil || b.set != e.set.Load() || b.set.outlived(b.since()) {
			return nil
		}
	}
	b.hold(id)
	return b
}

// hold has a box stay while something is started in it. Executor.mu is held.
func (b *box) hold(id string) {
	b.users++
	if id != "" {
		b.ids[id]++
	}
}

func (e *Executor) leave(b *box, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.users--
	if id == "" {
		return
	}
	if b.ids[id]--; b.ids[id] == 0 {
		delete(b.ids, id)
	}
}

// execs is the executor over the engine's exec API; nil if nothing was ever
// started through it, unless it is to be used now.
func (e *Executor) execs(use bool) (corral.Executor, error) {
	dir := filepath.Join(e.dir, execDir)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exec != nil {
		return e.exec, nil
	}
	if _, err := os.Stat(dir); !use && err != nil {
		return nil, ignoreMissing(err)
	}
	engine, ok := e.engine.(engine.ExecEngine)
	if !ok && !use {
		return nil, nil
	}
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "use the driver auto", "this engine has no exec API")
	}
	d, err := execdriver.New(execdriver.Options{
		Engine: engine, Enter: e.enterExec, Kill: e.engine.Remove,
		Dir: dir, Info: sandboxInfo, OutputRate: e.outputRate, Log: e.log,
	})
	if err != nil {
		return nil, err
	}
	e.exec = d
	return d, nil
}

// enterExec is execdriver.Options.Enter.
func (e *Executor) enterExec(ctx context.Context, cmd corral.Command) (container string, plan pathenv.Plan, err error) {
	b, err := e.ready(ctx, "", false)
	if err != nil {
		return "", plan, err
	}
	e.leave(b, "")
	if b.warden != nil {
		return "", plan, corral.Errorf(corral.ErrUnavailable, "try again", "the sandbox %s is configured otherwise by now", e.name)
	}
	plan, err = b.prepare(e.set.Load(), cmd)
	return b.Ref(), plan, err
}
