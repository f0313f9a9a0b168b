package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
)

// noConnection is wardenexec.Options.Connect of what is over.
func noConnection(context.Context, bool) (wire.Conn, error) { return nil, wardenexec.ErrGone }

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
	b, err := e.ready(ctx, cmd.ID)
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

// takeTurn waits for the token.
func (e *Executor) takeTurn(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-e.life.Done():
		return errClosed
	case <-ctx.Done():
		return corral.Errorf(corral.ErrUnavailable, "try again", "the sandbox %s is being made ready for others: %w", e.name, ctx.Err())
	}
}

func (e *Executor) endTurn() { <-e.turn }

// openAll opens every box that the sandbox has.
func (e *Executor) openAll(ctx context.Context) error {
	if err := e.takeTurn(ctx); err != nil {
		return err
	}
	defer e.endTurn()
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil {
		return err
	}
	_, err = e.openThese(rec.Boxes)
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(rec.Boxes); n > 0 {
		e.last = rec.Boxes[n-1]
	}
	e.startDraining()
	return err
}

// openThese opens boxes, and returns the IDs of those that are there. It is the
// caller's turn.
func (e *Executor) openThese(ids []string) (there []string, err error) {
	for _, id := range ids {
		e.mu.Lock()
		b := e.boxes[id]
		e.mu.Unlock()
		if b == nil {
			b, err = e.openBox(id)
			if errors.Is(err, errNoBox) {
				continue
			}
			if err != nil {
				return nil, err
			}
			e.mu.Lock()
			e.boxes[id] = b
			e.mu.Unlock()
		}
		there = append(there, id)
	}
	return there, nil
}

// ready returns the box that commands go to now, held: one that is as
// configured, or a new one. The others are given up.
func (e *Executor) ready(ctx context.Context, id string) (*box, error) {
	return e.readyBox(ctx, id, false)
}

// readyBox is ready; with fresh, the box is a new one in any case.
func (e *Executor) readyBox(ctx context.Context, id string, fresh bool) (*box, error) {
	if err := e.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer e.endTurn()
	ctx, cancel := context.WithCancel(ctx) // and nothing is made after Close
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	set := e.set.Load()
	unlock, err := lockSandbox(ctx, e.stateDir, e.name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil {
		return nil, err
	}
	there, err := e.openThese(rec.Boxes)
	if err != nil {
		return nil, err
	}
	changed := len(there) != len(rec.Boxes) || rec.Owner != set.Owner || rec.Key != set.Key
	rec.Boxes, rec.Owner, rec.Key = there, set.Owner, set.Key
	var b *box
	if !fresh {
		if b, err = e.match(ctx, set, rec.Boxes); err != nil {
			return nil, err
		}
	}
	sync := true
	if b == nil {
		if b, err = e.claim(ctx, set, &rec); err != nil {
			return nil, err
		}
		sync = b == nil
	}
	if b == nil {
		if err := e.sweepOnce(ctx); err != nil {
			return nil, err
		}
		if b, err = e.make(ctx, set, &rec); err != nil {
			return nil, err
		}
	}
	if n := len(rec.Boxes); changed || n == 0 || rec.Boxes[n-1] != b.ID {
		rec.Boxes = append(slices.DeleteFunc(rec.Boxes, func(id string) bool { return id == b.ID }), b.ID)
		reached(stepUnreferenced)
		if err := saveSandbox(e.stateDir, rec, sync); err != nil {
			e.retire(b)
			return nil, fmt.Errorf("cannot note the sandbox's container: %w", err)
		}
		reached(stepReferenced)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if !sync { // the first command need not wait for the disk
		e.wg.Go(e.syncLater)
	}
	e.current, e.last, b.set = b, b.ID, set
	if other := e.tracking(id); other != nil && !other.dead {
		b = other // another goroutine was faster
	}
	b.hold(id)
	e.startDraining()
	return b, nil
}

// match looks for a box that is as configured and answers. The last of ids was
// used last.
func (e *Executor) match(ctx context.Context, set *setup, ids []string) (*box, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	info, err := e.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	warden, engine := "", info.Name
	for _, id := range slices.Backward(ids) {
		e.mu.Lock()
		b := e.boxes[id]
		dead := b == nil || b.dead || b.stale
		e.mu.Unlock()
		if dead || b.Hash != set.hash || b.Engine != engine || set.outlived(b.since()) {
			continue
		}
		if warden == "" && b.Driver != DriverExec {
			m, err := e.wardenMount(ctx, set)
			if err != nil {
				return nil, err
			}
			warden = m.Source
		}
		if !b.fits(set, warden) {
			continue
		}
		fine, err := e.usable(ctx, b)
		if err != nil || fine {
			return b, err
		}
	}
	return nil, nil
}

// usable reports whether commands can be started in a box. The error is that
// the engine does not say.
func (e *Executor) usable(ctx context.Context, b *box) (bool, error) {
	if b.warden == nil {
		alive, err := b.alive(ctx)
		if err == nil && !alive {
			e.retire(b)
		}
		return alive, err
	}
	_, err := b.warden.Reach(ctx)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, wardenexec.ErrGone) {
		e.retire(b)
		return false, nil
	}
	if alive, aerr := b.alive(ctx); aerr != nil || !alive {
		return false, err
	}
	// What runs in it goes on.
	e.log.Warn("the sandbox does not answer; making a new container", "name", e.name, "error", err)
	return false, nil
}

// retire has nothing be started in a box any more: its container is gone.
func (e *Executor) retire(b *box) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.dead = true
	if e.current == b {
		e.current = nil
	}
	e.startDraining()
}

// drivers are those to try, in this order.
func (e *Executor) drivers(set *setup) []Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case set.Driver != DriverAuto:
		return []Driver{set.Driver}
	case e.driver != "":
		return []Driver{e.driver}
	}
	list := []Driver{DriverFDs, DriverFrames}
	if set.isolatedKernel() {
		list = list[1:]
	}
	if _, ok := e.engine.(engine.ExecEngine); ok {
		list = append(list, DriverExec)
	}
	return list
}

// make makes a box, for the first driver that works. rec gets a workspace.
func (e *Executor) make(ctx context.Context, set *setup, rec *sandboxRecord) (b *box, err error) {
	auto := set.Driver == DriverAuto
	for _, driver := range e.drivers(set) {
		if auto && driver == DriverExec && err != nil && !errors.Is(err, errNoWarden) {
			break
		}
		if b, err = e.makeFor(ctx, set, driver, rec); err == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.boxes[b.ID] = b
			if auto {
				e.driver = driver
			}
			return b, nil
		}
		if !auto || ctx.Err() != nil || !errors.Is(err, errNoWarden) && !errors.Is(err, errSilent) && !errors.Is(err, errElsewhere) {
			break
		}
		e.log.Warn("cannot reach the warden", "driver", driver, "image", set.Image, "error", err)
	}
	return nil, err
}

// makeFor makes a box: first it is noted, then made, and then spoken to.
func (e *Executor) makeFor(ctx context.Context, set *setup, driver Driver, rec *sandboxRecord) (_ *box, err error) {
	info, err := e.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	r := boxRecord{
		Version: storeVersion, ID: newBoxID(e.name), Sandbox: e.name, Engine: info.Name, Image: set.Image, Hash: set.hash,
		Driver: driver, Fallback: driver != set.Driver, Created: now(),
	}
	r.Container = "corral-" + r.ID
	var warden engine.Mount
	if driver != DriverExec {
		if warden, err = e.wardenMount(ctx, set); err != nil {
			return nil, err
		}
		r.Warden = warden.Source
	}
	if set.hasPrivate() {
		if err := set.checkSize(info); err != nil {
			return nil, err
		}
		if err := e.ensureWorkspace(ctx, set, rec); err != nil {
			return nil, err
		}
		if err := set.checkPrivate(rec.Workspace); err != nil {
			return nil, err
		}
		r.Workspace = rec.Workspace
	}
	spec, err := set.spec(info, r, warden)
	if err != nil {
		return nil, err
	}
	if err := set.note(ctx, info, &spec, &r); err != nil {
		return nil, err
	}
	reached(stepIntended)
	var b *box
	defer func() {
		if err == nil {
			return
		}
		text := clip(err.Error())
		err = errors.Join(err, noteLife(boxDir(e.stateDir, r.ID), func(l *life) { l.Error = text }))
		if b != nil {
			err = errors.Join(err, b.close())
		}
		err = errors.Join(err, removeBox(context.WithoutCancel(ctx), e.engine, e.stateDir, r))
	}()
	if err := set.create(ctx, spec, info); err != nil {
		return nil, err
	}
	reached(stepStarted)
	if b, err = e.openBox(r.ID); err != nil {
		return nil, err
	}
	if err = set.setUp(ctx, b); err == nil && b.warden != nil {
		err = b.meet(ctx)
	}
	if errors.Is(err, wardenexec.ErrGone) { // it ended before anybody looked
		c, ierr := e.engine.Inspect(ctx, r.Container)
		err = corral.Errorf(corral.ErrUnavailable, "use an image for the engine's architecture with /bin/sh in it, or --driver exec",
			"the sandbox %s does not start: %w", e.name, errors.Join(fmt.Errorf("%w: its init ended with code %d%s", errNoWarden, c.Exit, because(c)), ierr))
	}
	return b, err
}

// wardenMount is mountWarden, which may need the image.
func (e *Executor) wardenMount(ctx context.Context, set *setup) (engine.Mount, error) {
	info, err := e.engine.Info(ctx)
	if err != nil {
		return engine.Mount{}, err
	}
	m, err := set.mountWarden(ctx, info)
	if errors.Is(err, engine.ErrNoImage) && set.EnsureImage != nil {
		if err := set.EnsureImage(ctx, set.Image); err != nil {
			return engine.Mount{}, err
		}
		m, err = set.mountWarden(ctx, info)
	}
	return m, err
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
		Engine: engine, Container: e.execContainer, Kill: e.engine.Remove, Prepare: e.prepare,
		Dir: dir, Info: sandboxInfo, OutputRate: e.outputRate, Log: e.log,
	})
	if err != nil {
		return nil, err
	}
	e.exec = d
	return d, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// execContainer returns a container that runs, made if need be.
func (e *Executor) execContainer(ctx context.Context) (string, error) {
	b, err := e.ready(ctx, "")
	if err != nil {
		return "", err
	}
	e.leave(b, "")
	if b.warden != nil {
		return "", corral.Errorf(corral.ErrUnavailable, "try again", "the sandbox %s is configured otherwise by now", e.name)
	}
	return b.Container, nil
}
