package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
	"github.com/corral-exec/corral/sandbox/private"
)

// A box is a container that this Executor uses: the one that commands go to, or
// one that is left for its commands to finish.
type box struct {
	boxRecord
	state  string // directory
	dir    string
	engine engine.Engine
	log    *slog.Logger
	lock   *os.File             // shared while the box is in use
	warden *wardenexec.Executor // nil with the driver exec
	named  atomic.Bool          // the engine is the one that has it, see atEngine
	first  wire.Conn            // that connect returns first, of a box from a pool; nil: none

	// Guarded by Executor.mu.
	set   *setup         // that it was last found to fit
	users int            // starts under way
	ids   map[string]int // those of them that have an ID
	dead  bool           // nothing is started in it any more
	stale bool           // it is not chosen any more
}

// errNoBox: a box is gone, or, if the error is errAlone, may be: another program looks
// whether something runs in it, and removes it if not.
var (
	errNoBox = errors.New("no such box")
	errAlone = corral.Errorf(corral.ErrUnavailable, "try again", "another program may be removing a container of the sandbox: %w", errNoBox)
)

// openBox begins to use a box; errNoBox if there is none.
func (e *Executor) openBox(id string) (*box, error) {
	dir := boxDir(e.stateDir, id)
	lock, err := lockBox(dir)
	if err != nil {
		return nil, err
	}
	rec, err := loadBox(e.stateDir, id)
	if err != nil {
		closeLock(lock)
		if errors.Is(err, os.ErrNotExist) {
			err = errNoBox
		}
		return nil, err
	}
	b := &box{boxRecord: rec, state: e.stateDir, dir: dir, engine: e.engine, log: e.log, lock: lock, ids: map[string]int{}}
	if b.Driver == DriverExec {
		return b, nil
	}
	if b.warden, err = e.wardenOf(b); err != nil {
		closeLock(lock)
		return nil, err
	}
	return b, nil
}

func (e *Executor) wardenOf(b *box) (*wardenexec.Executor, error) {
	return wardenexec.New(wardenexec.Options{
		Records: e.records, Connect: b.connect, Wake: e.wake, Untrusted: true,
		Prepare: e.prepare, Info: sandboxInfo, OutputRate: e.outputRate, Log: e.log,
	})
}

// close lets go of a box. Its commands go on.
func (b *box) close() error {
	defer closeLock(b.lock)
	if b.warden == nil {
		return nil
	}
	return b.warden.Close()
}

func closeLock(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// fits reports whether commands of a configuration can go to a box.
func (b *box) fits(s *setup, warden string) bool {
	if b.Hash != s.hash || b.Driver != DriverExec && b.Warden != warden {
		return false
	}
	return b.Driver == s.Driver || s.Driver == DriverAuto && (b.Driver != DriverExec || b.Fallback)
}

// alive reports whether the container runs.
func (b *box) alive(ctx context.Context) (bool, error) {
	c, err := b.engine.Inspect(ctx, b.Container)
	if errors.Is(err, engine.ErrNoContainer) {
		return false, nil
	}
	return c.Running, err
}

// connect is wardenexec.Options.Connect. A box has one container, and when that
// has ended there is no other.
func (b *box) connect(ctx context.Context, _ bool) (wire.Conn, error) {
	if conn := b.first; conn != nil { // one connection at a time is made
		b.first = nil
		return conn, nil
	}
	if err := b.atEngine(ctx); err != nil {
		return nil, err
	}
	c, err := b.engine.Inspect(ctx, b.Container)
	switch {
	case errors.Is(err, engine.ErrNoContainer):
		return nil, b.gone(EndOf(c))
	case err != nil:
		return nil, err
	case c.Labels[labelBox] != b.ID:
		return nil, corral.Errorf(corral.ErrUnavailable, "remove or rename it", "the container %s is not the sandbox's", b.Container)
	case !c.Running:
		end := b.howEnded(ctx, c)
		b.log.Warn("a sandbox's container has ended", "name", b.Sandbox, "container", b.Container, "exit", end.Code, "oom", end.OOM)
		if err := noteEnd(b.dir, end); err != nil {
			b.log.Warn("cannot note how a sandbox's container ended", "name", b.Sandbox, "error", err)
		}
		return nil, b.gone(end)
	}
	return b.reach(ctx, c)
}

// atEngine says whether the box is at the engine that is used: else that one does not
// know the container, which is not gone. What an engine is called does not change as
// long as this program runs.
func (b *box) atEngine(ctx context.Context) error {
	if b.named.Load() {
		return nil
	}
	info, err := b.engine.Info(ctx)
	switch {
	case err != nil:
		return err
	case info.Name != b.Engine:
		return corral.Errorf(corral.ErrUnavailable, "use that engine until its commands have ended", "the container %s is at another engine, %s", b.Container, b.Engine)
	}
	b.named.Store(true)
	return nil
}

// meet speaks to the warden of a new box for the first time, and notes which one
// that is: how it ended will be asked by those who know only that.
func (b *box) meet(ctx context.Context) error {
	warden, err := b.warden.Reach(ctx)
	if err != nil {
		return err
	}
	return noteLife(b.dir, func(l *life) { l.Warden = warden })
}

// idle reports whether nothing runs in a box, also nothing that others have
// started; see alone. If it does, nothing will: the box is to be removed.
func (b *box) idle(ctx context.Context, execs *execdriver.Driver) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if b.warden == nil {
		return execs == nil || !execs.Busy(b.Container), nil
	}
	if b.warden.Running() > 0 {
		return false, nil
	}
	running, err := b.warden.Settle(ctx)
	switch {
	case errors.Is(err, wardenexec.ErrGone):
		return true, nil
	case err != nil || running > 0:
		return false, err
	}
	return b.warden.Shutdown(ctx), nil
}

// sandboxInfo is what is the same for every process.
var sandboxInfo = corral.Info{Host: corral.HostSandbox, Sandboxed: true}

// removeBox removes a box with its container, whatever runs in it. The private
// workspace stays.
func removeBox(ctx context.Context, engine engine.Engine, state string, rec boxRecord) error {
	noted := noteRemoval(ctx, engine, state, rec)
	if err := engine.Remove(ctx, rec.Container); err != nil {
		return err
	}
	reached(stepContainerRemoved)
	if err := rec.returnUser(); err != nil {
		return err
	}
	noted = errors.Join(noted, keepLife(state, rec))
	if err := private.RemoveTree(boxDir(state, rec.ID)); err != nil {
		return fmt.Errorf("cannot remove the directory of a sandbox's container: %w", err)
	}
	return noted
}

// boxesOf are the boxes that were made for a sandbox, also those to which it
// does not refer.
func boxesOf(state, name string) ([]string, error) {
	found, err := glob(filepath.Join(state, boxesDir), boxPrefix(name)+"*")
	if err != nil {
		return nil, err
	}
	taken, err := glob(filepath.Join(state, boxesDir), boxPrefix(poolName)+"*")
	if err != nil {
		return nil, err
	}
	if name != poolName {
		found = append(found, taken...)
	}
	var ids []string
	for _, dir := range found {
		rec, err := loadBox(state, filepath.Base(dir))
		if ignoreMissing(err) != nil { // else it was removed meanwhile
			return nil, err
		}
		if err == nil && rec.Sandbox == name { // and not another whose name begins like this one
			ids = append(ids, rec.ID)
		}
	}
	return ids, nil
}
