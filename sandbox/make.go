package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
)

// drivers are those to try, in this order.
func (e *Executor) drivers(set *setup, info engine.Info) []Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case set.Driver != DriverAuto:
		return []Driver{set.Driver}
	case e.driver != "":
		return []Driver{e.driver}
	}
	list := []Driver{DriverFDs, DriverFrames}
	if !set.passesFiles(info) {
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
	info, err := e.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	set = set.at(info)
	for _, driver := range e.drivers(set, info) {
		if auto && driver == DriverExec && err != nil && !errors.Is(err, errNoWarden) {
			break
		}
		if b, err = e.makeFor(ctx, set, info, driver, rec); err == nil {
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
func (e *Executor) makeFor(ctx context.Context, set *setup, info engine.Info, driver Driver, rec *sandboxRecord) (_ *box, err error) {
	r := set.newBox(e.name, driver, info)
	r.Sandbox, r.Fallback = e.name, driver != set.Driver
	var warden engine.Mount
	if driver != DriverExec {
		if warden, err = e.wardenMount(ctx, set, info); err != nil {
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
	for _, v := range set.Mounts.Volumes {
		if err := set.makeVolume(ctx, info, v.Dir); err != nil {
			return nil, err
		}
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
		if err != nil {
			err = e.unmake(ctx, r, b, err)
		}
	}()
	if err := set.create(ctx, spec, info, &r); err != nil {
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
		c, ierr := e.engine.Inspect(ctx, r.Ref())
		err = b.notStarted(errors.Join(fmt.Errorf("%w: its init ended with code %d%s", errNoWarden, c.Exit, because(c)), ierr))
	}
	return b, err
}

// unmake removes a box that could not be made, and closes b, which is nil until it is open.
func (e *Executor) unmake(ctx context.Context, r boxRecord, b *box, err error) error {
	text := engine.Clip(err.Error())
	err = errors.Join(err, noteLife(boxDir(e.stateDir, r.ID), func(l *life) { l.Error = text }))
	if b != nil {
		err = errors.Join(err, b.close())
	}
	return errors.Join(err, removeBox(context.WithoutCancel(ctx), e.engine, e.stateDir, r))
}

// wardenMount is mountWarden, which may need the image.
func (e *Executor) wardenMount(ctx context.Context, set *setup, info engine.Info) (engine.Mount, error) {
	m, err := set.mountWarden(ctx, info)
	if errors.Is(err, engine.ErrNoImage) && set.EnsureImage != nil {
		if err := set.EnsureImage(ctx, set.Image); err != nil {
			return engine.Mount{}, err
		}
		m, err = set.mountWarden(ctx, info)
	}
	return m, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
