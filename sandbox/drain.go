package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Boxes that nothing is started in any more are looked at after 20 ms, then up
// to every 2 s, until they can be removed.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 2 * time.Second
)

// startDraining has boxes that are left removed, each after its last command.
// e.mu is held.
func (e *Executor) startDraining() {
	if e.draining || e.closed || len(e.left()) == 0 {
		return
	}
	e.draining = true
	e.wg.Go(e.drain)
}

// left are the boxes of this engine that commands do not go to any more. e.mu is held.
func (e *Executor) left() []*box {
	var list []*box
	for _, b := range e.boxes {
		if (b.dead || b.ID != e.last) && !b.other {
			list = append(list, b)
		}
	}
	return list
}

// drain removes boxes that are left, and ends with the last, or with Close.
func (e *Executor) drain() {
	said := map[string]bool{}
	for delay := firstLook; ; delay = min(2*delay, lastLook) {
		select {
		case <-time.After(delay):
		case <-e.life.Done():
			return
		}
		e.mu.Lock()
		list := e.left()
		if len(list) == 0 {
			e.draining = false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		for _, b := range list {
			if _, err := e.tryRemove(e.life, b); err != nil && e.life.Err() == nil && !said[b.ID] {
				said[b.ID] = true
				e.log.Warn("cannot remove a container that is not used any more; trying again", "name", e.name, "container", b.Container, "error", err)
			}
		}
	}
}

// giveUpLimit bounds how long Close takes to remove what is not needed any more.
const giveUpLimit = 10 * time.Second

// giveUp removes boxes in which nothing runs and to which this sandbox sends no
// commands any more. The box of this life is among them if another program has
// made one with another configuration. What cannot be removed now is removed when
// the sandbox is opened next.
func (e *Executor) giveUp() error {
	list := e.open()
	if len(list) == 0 {
		return nil
	}
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUpLimit)
	defer cancel()
	e.mu.Lock()
	e.current = nil // nothing is started any more
	e.mu.Unlock()
	for _, b := range list {
		if n := len(rec.Boxes); n > 0 && rec.Boxes[n-1] == b.ID {
			continue
		}
		if _, err := e.tryRemove(ctx, b); err != nil {
			e.log.Warn("cannot remove a container that is not used any more", "name", e.name, "container", b.Container, "error", err)
		}
	}
	return nil
}

// tryRemove removes a box that is left, unless something runs in it or another
// program uses it. It reports whether it is gone.
func (e *Executor) tryRemove(ctx context.Context, b *box) (bool, error) {
	over, err := e.isOver(ctx, b)
	if err != nil || !over {
		return false, err
	}
	if err := removeBox(ctx, e.engine, e.stateDir, b.boxRecord); err != nil {
		return false, err
	}
	if err := e.unlist(ctx, b.ID); err != nil {
		return false, err
	}
	e.mu.Lock()
	there := e.boxes[b.ID] == b // else another goroutine was faster
	delete(e.boxes, b.ID)
	e.mu.Unlock()
	if !there {
		return false, nil
	}
	e.log.Info("removed a container that is not used any more", "name", e.name, "container", b.Container)
	return true, b.close()
}

// isOver decides that nothing runs in a box that is left, nor will any more.
func (e *Executor) isOver(ctx context.Context, b *box) (bool, error) {
	if err := e.takeTurn(ctx); err != nil {
		return false, err
	}
	defer e.endTurn()
	e.mu.Lock()
	dead, used, execs := b.dead, b.users > 0 || b == e.current, e.exec
	e.mu.Unlock()
	// Of what another engine made, this one knows nothing.
	if _, err := b.Inspect(ctx, e.engine); errors.Is(err, errOther) {
		e.mu.Lock()
		b.other = true
		e.mu.Unlock()
		return false, nil
	}
	switch {
	case used:
		return false, nil
	case dead: // its commands are lost, which has to be noted
		return b.warden == nil || b.warden.Running() == 0, nil
	case b.warden != nil && b.warden.Running() > 0:
		return false, nil
	}
	alone, err := b.alone()
	if err != nil || !alone {
		return false, err
	}
	idle, err := b.idle(ctx, execs)
	e.mu.Lock()
	if idle && err == nil && b.users == 0 {
		b.dead = true
		e.mu.Unlock()
		return true, nil
	}
	e.mu.Unlock()
	return false, errors.Join(err, b.share())
}

// unlist ends the reference to a box.
func (e *Executor) unlist(ctx context.Context, id string) error {
	unlock, err := lockSandbox(ctx, e.stateDir, e.name)
	if errors.Is(err, os.ErrNotExist) { // the sandbox has been removed
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil || !slices.Contains(rec.Boxes, id) {
		return err
	}
	rec.Boxes = slices.DeleteFunc(rec.Boxes, func(other string) bool { return other == id })
	return saveSandbox(e.stateDir, rec, true)
}

// syncAfter is how long the disk is left to the first command.
const syncAfter = 100 * time.Millisecond

func (e *Executor) syncLater() {
	select {
	case <-time.After(syncAfter):
	case <-e.life.Done():
	}
	e.sync()
}

// sync writes what is noted of the sandbox once more, onto the disk.
func (e *Executor) sync() {
	unlock, err := lockSandbox(context.Background(), e.stateDir, e.name)
	if err == nil {
		defer unlock()
		var rec sandboxRecord
		if rec, err = loadSandbox(e.stateDir, e.name); err == nil {
			err = saveSandbox(e.stateDir, rec, true)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.log.Warn("a power cut may lose what is noted of a sandbox", "name", e.name, "error", err)
	}
}

// usedEvery is how old the note of a sandbox's last use may be.
const usedEvery = time.Minute

// touch notes that the sandbox is used: at once, since it may be about to be removed
// as idle, and again after a minute in which it costs commands nothing.
func (e *Executor) touch() {
	if e.used.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.used.Load() {
		return
	}
	e.noteUse(time.Now())
	e.used.Store(true)
	e.wg.Go(func() {
		select {
		case <-time.After(usedEvery):
		case <-e.life.Done():
		}
		e.used.Store(false)
		e.noteUse(time.Now())
	})
}

func (e *Executor) noteUse(at time.Time) {
	name := filepath.Join(e.dir, usedFile)
	err := os.Chtimes(name, at, at)
	if errors.Is(err, os.ErrNotExist) {
		err = ignoreMissing(os.WriteFile(name, nil, 0o600)) // the sandbox may have been removed
	}
	if err != nil {
		e.log.Warn("cannot note when a sandbox was used", "name", e.name, "error", err)
	}
}
