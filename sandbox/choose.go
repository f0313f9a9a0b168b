package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
)

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
	for since := time.Now(); errors.Is(err, errAlone) && time.Since(since) < settleLimit && ctx.Err() == nil && e.life.Err() == nil; _, err = e.openThese(rec.Boxes) {
		time.Sleep(firstLook) // it is known soon whether the box stays
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(rec.Boxes); n > 0 {
		e.last = rec.Boxes[n-1]
	}
	e.startDraining()
	return err
}

// openThese opens boxes, and returns the IDs of those that are there. With errAlone it
// does as well: they are not all open. It is the caller's turn.
func (e *Executor) openThese(ids []string) (there []string, alone error) {
	for _, id := range ids {
		e.mu.Lock()
		b := e.boxes[id]
		e.mu.Unlock()
		if b == nil {
			b, err := e.openBox(id)
			switch {
			case errors.Is(err, errAlone):
				alone = err
			case errors.Is(err, errNoBox):
				continue
			case err != nil:
				return nil, err
			default:
				e.mu.Lock()
				e.boxes[id] = b
				e.mu.Unlock()
			}
		}
		there = append(there, id)
	}
	return there, alone
}

// ready returns the box that commands go to now, held: one that is as
// configured, or a new one, with fresh in any case. The others are given up.
func (e *Executor) ready(ctx context.Context, id string, fresh bool) (*box, error) {
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
	if err != nil && !errors.Is(err, errAlone) {
		return nil, err
	}
	had := len(rec.Boxes) > 0
	changed := len(there) != len(rec.Boxes) || rec.Owner != set.Owner || rec.Key != set.Key || rec.Ephemeral != set.Ephemeral
	rec.Boxes, rec.Owner, rec.Key, rec.Ephemeral = there, set.Owner, set.Key, set.Ephemeral
	b, pooled := (*box)(nil), false
	if !fresh {
		if b, err = e.match(ctx, set, rec.Boxes); err != nil {
			return nil, err
		}
	}
	if b == nil {
		noted := func() {}
		if set.Admit != nil {
			if noted, err = set.Admit(ctx, Limits{Memory: set.Resources.Memory, Swap: set.Resources.Swap, CPUs: set.Resources.CPUs, Pids: set.Resources.Pids}); err != nil {
				return nil, err
			}
		}
		defer noted()
		if b, pooled, err = e.another(ctx, set, &rec); err != nil {
			return nil, err
		}
		b.replaces.Store(had || e.had)
	}
	if err := e.refer(b, rec, changed, !pooled); err != nil {
		return nil, err
	}
	return e.use(b, set, id, pooled)
}

// another returns a box that is from the pool, or else is made. The sandbox is locked.
func (e *Executor) another(ctx context.Context, set *setup, rec *sandboxRecord) (b *box, pooled bool, err error) {
	if b, err = e.claim(ctx, set, rec); err != nil || b != nil {
		return b, true, err
	}
	if err := e.sweepOnce(ctx); err != nil {
		return nil, false, err
	}
	b, err = e.make(ctx, set, rec)
	return b, false, err
}

// refer notes that a box is the sandbox's last one, if rec does not say so already.
func (e *Executor) refer(b *box, rec sandboxRecord, changed, sync bool) error {
	n := len(rec.Boxes)
	if !changed && n > 0 && rec.Boxes[n-1] == b.ID {
		return nil
	}
	isNew := !slices.Contains(rec.Boxes, b.ID)
	rec.Boxes = append(slices.DeleteFunc(rec.Boxes, func(id string) bool { return id == b.ID }), b.ID)
	reached(stepUnreferenced)
	if err := saveSandbox(e.stateDir, rec, sync); err != nil {
		if isNew { // else something may run in it
			e.retire(b)
		}
		return fmt.Errorf("cannot note the sandbox's container: %w", err)
	}
	reached(stepReferenced)
	return nil
}

// use has new commands go to a box, and holds it, or the one that has the ID.
func (e *Executor) use(b *box, set *setup, id string, pooled bool) (*box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if pooled { // its first command need not wait for the disk
		e.wg.Go(e.syncLater)
	}
	e.current, e.last, e.had, b.set = b, b.ID, true, set
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
	b, fits, err := e.matchNear(ctx, set, ids)
	if fits || err != nil {
		return b, err
	}
	info, err := e.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	b, _, err = e.matchAt(ctx, set, ids, info.Name, func() (string, error) {
		m, err := e.wardenMount(ctx, set, info)
		return m.Source, err
	})
	return b, err
}

// matchNear is match of the boxes that nearly all are: their warden is a file of this
// machine, for its processor. Of these the engine need not say how it is, which takes
// it longer than all the rest.
func (e *Executor) matchNear(ctx context.Context, set *setup, ids []string) (_ *box, fits bool, err error) {
	near, ok := e.engine.(engine.NearEngine)
	if !ok {
		return nil, false, nil
	}
	name, local, err := near.Near(ctx)
	if err != nil || !local {
		return nil, false, err
	}
	m, err := set.mountWarden(ctx, engine.Info{Name: name, Arch: runtime.GOARCH, Local: true})
	if err != nil {
		return nil, false, nil //nolint:nilerr // there may be one for the engine's processor
	}
	return e.matchAt(ctx, set, ids, name, func() (string, error) { return m.Source, nil })
}

// matchAt is match for an engine by its name, and for the warden's place that is asked
// for at most once. It reports also whether a box was as configured, whether or not
// that answers.
func (e *Executor) matchAt(ctx context.Context, set *setup, ids []string, engine string, place func() (string, error)) (_ *box, fits bool, err error) {
	warden := ""
	for _, id := range slices.Backward(ids) {
		e.mu.Lock()
		b := e.boxes[id]
		dead := b == nil || b.dead || b.stale
		e.mu.Unlock()
		if dead || b.Hash != set.hash || b.Engine != engine || set.outlived(b.since()) {
			continue
		}
		if warden == "" && b.Driver != DriverExec {
			if warden, err = place(); err != nil {
				return nil, fits, err
			}
		}
		if !b.fits(set, warden) {
			continue
		}
		fits = true
		fine, err := e.usable(ctx, b)
		if err != nil || fine {
			return b, fits, err
		}
	}
	return nil, fits, nil
}

// usable reports whether commands can be started in a box. The error is that
// the engine does not say.
func (e *Executor) usable(ctx context.Context, b *box) (bool, error) {
	if b.warden == nil {
		alive, err := b.alive(ctx)
		if err == nil && !alive {
			e.retire(b)
		}
		return alive, ignoreOther(err)
	}
	_, err := b.warden.Reach(ctx)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, wardenexec.ErrGone) {
		e.retire(b)
		return false, nil
	}
	if alive, aerr := b.alive(ctx); !errors.Is(aerr, errOther) && (aerr != nil || !alive || errors.Is(err, errFrozen)) {
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
