package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
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
	first  wire.Conn            // that connect returns first, of a box from a pool; nil: none

	planner  atomic.Pointer[planner] // of the last command
	replaces atomic.Bool             // another container of the sandbox; its first command is told

	// Guarded by Executor.mu.
	set   *setup         // that it was last found to fit
	users int            // starts under way
	ids   map[string]int // those of them that have an ID
	dead  bool           // nothing is started in it any more
	stale bool           // it is not chosen any more
	other bool           // it is at another engine: it is not for this life to remove it
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
		Records: e.records, Connect: b.connect, Wake: e.wake, Frozen: func(ctx context.Context) error { return e.thaw(ctx, b) }, Untrusted: true,
		Prepare: func(_ context.Context, cmd corral.Command) (pathenv.Plan, error) { return b.prepare(e.set.Load(), cmd) },
		Info:    sandboxInfo, OutputRate: e.outputRate, Log: e.log,
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
	c, err := b.Inspect(ctx, b.engine)
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
	c, err := b.Inspect(ctx, b.engine)
	switch {
	case errors.Is(err, engine.ErrNoContainer):
		return nil, b.gone(engine.EndOf(c))
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
	case c.Paused && !isPaused(b.state, b.Sandbox):
		return nil, b.frozen()
	}
	return b.reach(ctx, c)
}

// Ref is what the engine finds the container by: its ID, which stays when it is renamed.
func (b Box) Ref() string { return cmp.Or(b.ContainerID, b.Container) }

// errOther: a container is at another engine than the one that is used. That one does not
// know whether it runs.
var errOther = corral.Errorf(corral.ErrUnavailable, "", "it is at another engine")

// Inspect looks at the container. engine.ErrNoContainer: it is gone.
func (b Box) Inspect(ctx context.Context, e engine.Engine) (engine.Container, error) {
	c, err := e.Inspect(ctx, b.Ref())
	if errors.Is(err, engine.ErrNoContainer) {
		err = cmp.Or(b.checkEngine(ctx, e), err)
	}
	return c, err
}

// At reports whether the container was made by an engine, as far as that is known.
func (b Box) At(info engine.Info) bool {
	return (b.Engine == "" || b.Engine == info.Name) && (b.EngineID == "" || info.ID == "" || b.EngineID == info.ID)
}

// checkEngine says whether the container would be at an engine, which does not have it.
func (b Box) checkEngine(ctx context.Context, e engine.Engine) error {
	info, err := e.Info(ctx)
	if err != nil || b.At(info) {
		return err
	}
	named := func(b Box) string { return strings.TrimSuffix(b.EngineName()+" ("+b.EngineID+")", " ()") }
	return corral.Errorf(errOther, "use that engine (docs/reference/engines.md says how one is chosen); if it is gone for good: corral sandbox rm --force",
		"the container %s is at another engine, %s, and not at %s", b.Container, named(b), named(Box{Engine: info.Name, EngineID: info.ID, Address: info.Address}))
}

// EngineName is the name of the engine that made the container, and where it was reached.
func (b Box) EngineName() string { return strings.TrimSpace(b.Engine + " " + b.Address) }

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
		return execs == nil || !execs.Busy(b.Ref()), nil
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
	noted, err := removeContainer(ctx, engine, state, rec)
	if err != nil {
		return err
	}
	reached(stepContainerRemoved)
	return errors.Join(noted, forgetBox(state, rec))
}

// removeContainer removes the container of a box. noted is why it could not be noted how
// that ended.
func removeContainer(ctx context.Context, eng engine.Engine, state string, rec boxRecord) (noted, err error) {
	c, err := eng.Inspect(ctx, rec.Ref())
	switch {
	case errors.Is(err, engine.ErrNoContainer):
		return nil, rec.checkEngine(ctx, eng)
	case err == nil: // else it is seen when it is removed what is wrong
		noted = noteRemoval(state, rec, c)
	}
	return noted, eng.Remove(ctx, rec.Ref())
}

// forgetBox removes what is noted of a box whose container is gone.
func forgetBox(state string, rec boxRecord) error {
	if err := rec.returnUser(); err != nil {
		return err
	}
	kept := keepLife(state, rec)
	if err := private.RemoveTree(boxDir(state, rec.ID)); err != nil {
		return fmt.Errorf("cannot remove the directory of a sandbox's container: %w", err)
	}
	return kept
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
