package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
	"github.com/corral-exec/corral/sandbox/place"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// An Executor is one sandbox; it is a corral.Executor and an io.Closer.
type Executor struct {
	engine    engine.Engine
	log       *slog.Logger
	stateDir  string
	name      string
	dir       string // of this sandbox
	ephemeral bool
	owner     *os.File

	records *wardenexec.Records  // of all boxes with a warden
	past    *wardenexec.Executor // knows what ended, and what was lost
	set     atomic.Pointer[setup]

	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup
	turn chan struct{} // a token: whose turn it is to choose, make or give up boxes
	used atomic.Bool   // that it was used is written, and will be once more
	had  bool          // commands went to a box, which may be gone; guarded by lockSandbox

	mu       sync.Mutex
	closed   bool
	current  *box               // that commands go to; nil until it is known
	last     string             // ID of the box that commands went to last, in whichever life
	boxes    map[string]*box    // in use here, by ID: also those that are left
	draining bool               // those that are left are being removed
	exec     *execdriver.Driver // nil until it is needed
	driver   Driver             // that works with DriverAuto; empty: not known
	swept    bool
}

// New returns an Executor. Nothing is made before the first command.
func New(cfg Config) (_ *Executor, err error) {
	set, err := newSetup(cfg)
	if err != nil {
		return nil, err
	}
	e := &Executor{
		engine: set.Engine, log: set.Log, stateDir: set.StateDir, name: set.Name, ephemeral: set.Ephemeral,
		dir: sandboxDir(set.StateDir, set.Name), turn: make(chan struct{}, 1), boxes: map[string]*box{},
	}
	e.set.Store(set)
	e.life, e.end = context.WithCancel(context.Background())
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the sandbox's state directory: %w", err)
	}
	if set.Ephemeral {
		if e.owner, err = place.Use(set.StateDir); err != nil {
			return nil, err
		}
	}
	if e.records, err = wardenexec.OpenRecords(filepath.Join(e.dir, logsDir), e.log); err == nil {
		if e.past, err = wardenexec.New(wardenexec.Options{
			Records: e.records, Connect: noConnection, HowEnded: e.howEnded, Untrusted: true, Prepare: e.prepare, Info: sandboxInfo, Log: e.log,
		}); err == nil {
			return e, nil
		}
		e.records.Close()
	}
	closeLock(e.owner)
	return nil, err
}

// Configure has commands that are started from now on go to a container that is
// as cfg says. Those that run stay where they are; their container is removed
// after the last of them. What is set of Engine, StateDir, Name, Ephemeral and
// Log counts for nothing: they stay. On error nothing has changed.
func (e *Executor) Configure(cfg Config) error {
	old := e.set.Load()
	cfg.Engine, cfg.StateDir, cfg.Name, cfg.Ephemeral, cfg.Log = old.Engine, old.StateDir, old.Name, old.Ephemeral, old.Log
	set, err := newSetup(cfg)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if set.Image != old.Image || set.Runtime != old.Runtime {
		e.driver = ""
	}
	e.set.Store(set)
	return nil
}

// prepare is for a command that has no box, or none yet.
func (e *Executor) prepare(_ context.Context, cmd corral.Command) (pathenv.Plan, error) {
	return e.set.Load().planner(nil).prepare(cmd)
}

func (e *Executor) outputRate() int64 { return e.set.Load().Resources.OutputRate }

// maxBoxes bounds how many containers one Start tries when each of them ends
// before the command is started.
const maxBoxes = 3

// Start implements corral.Executor.
func (e *Executor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := e.wake(ctx); err != nil {
		return nil, err
	}
	e.followOwner()
	for n := 1; ; n++ {
		b, x, err := e.enter(ctx, cmd)
		if err != nil {
			return nil, err
		}
		if b == nil {
			p, err := x.Start(ctx, cmd)
			return p, e.inside(cmd, err)
		}
		p, err := b.warden.Start(ctx, cmd)
		gone := errors.Is(err, wardenexec.ErrGone)
		if gone {
			e.retire(b)
		}
		e.leave(b, cmd.ID)
		if !gone || n == maxBoxes {
			return p, e.inside(cmd, err)
		}
	}
}

// inside adds to the error of a directory that is missing in the sandbox where it is there, if
// the caller named the workspace as this machine does.
func (e *Executor) inside(cmd corral.Command, err error) error {
	set := e.set.Load()
	if !errors.Is(err, corral.ErrDir) || set.hasPrivate() || !path.IsAbs(cmd.Dir) {
		return err
	}
	below, ok := strings.CutPrefix(path.Clean(cmd.Dir)+"/", strings.TrimSuffix(set.Workspace.Dir, "/")+"/")
	if !ok {
		return err
	}
	return corral.Errorf(corral.ErrDir, "in the sandbox it is "+path.Join(set.workdir(), below), "%w", err)
}

// Attach implements corral.Executor.
func (e *Executor) Attach(ctx context.Context, id string) (corral.Process, error) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errClosed
	}
	b := e.tracking(id)
	if b != nil {
		b.hold(id) // as find does
	}
	e.mu.Unlock()
	if b == nil {
		var x corral.Executor
		var err error
		if b, x, err = e.find(ctx, id); err != nil {
			return nil, err
		}
		if b == nil {
			p, err := x.Attach(ctx, id)
			if err == nil && x == e.past {
				p = ended{p, e, new(atomic.Bool)}
			}
			return p, err
		}
	}
	defer e.leave(b, id)
	return b.warden.Attach(ctx, id)
}

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the sandbox is closed")

// Close lets go of the sandbox, which stays for the next life of this program,
// unless it is ephemeral: then it is removed, with its commands.
func (e *Executor) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.wg.Wait()
	var errs []error
	if !e.ephemeral {
		errs = append(errs, e.giveUp())
	}
	e.turn <- struct{}{} // for good
	for _, b := range e.open() {
		errs = append(errs, b.close())
	}
	e.mu.Lock()
	x := e.exec
	e.mu.Unlock()
	if x != nil {
		errs = append(errs, x.Close())
	}
	errs = append(errs, e.past.Close())
	e.records.Close()
	if e.ephemeral {
		errs = append(errs, e.Remove(context.Background()))
	}
	closeLock(e.owner)
	return errors.Join(errs...)
}

// open are the boxes that are in use here.
func (e *Executor) open() []*box {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*box, 0, len(e.boxes))
	for _, b := range e.boxes {
		list = append(list, b)
	}
	return list
}

// Remove removes the containers, with whatever runs in them, and the private
// workspace. The next command makes new ones. Records and logs of commands stay.
func (e *Executor) Remove(ctx context.Context) error { return e.remove(ctx, true, false) }

// Abandon is Remove of a sandbox whose engine may be gone for good. A container of another
// engine than the one that is used is left there, and is not the sandbox's any more.
func (e *Executor) Abandon(ctx context.Context) error { return e.remove(ctx, true, true) }

// Stop removes the containers, with whatever runs in them. The private workspace stays, and
// the next command gets a container with it.
func (e *Executor) Stop(ctx context.Context) error { return e.remove(ctx, false, false) }

func (e *Executor) remove(ctx context.Context, workspace, forget bool) error {
	unlock, err := lockSandbox(ctx, e.stateDir, e.name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil {
		return err
	}
	ids, err := boxesOf(e.stateDir, e.name)
	if err != nil {
		return err
	}
	for _, id := range append(ids, rec.Boxes...) { // one that comes twice is gone by then
		if err := e.removeBox(ctx, id, forget); err != nil {
			return err
		}
	}
	if err := secrets.Drop(e.stateDir, e.name); err != nil {
		return err
	}
	if workspace && rec.Workspace != "" {
		if err := removeWorkspace(ctx, e.engine, e.stateDir, rec.Workspace); err != nil {
			return err
		}
	}
	if err := os.Remove(pausedMark(e.stateDir, e.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if rec.Boxes = nil; workspace {
		rec.Workspace, e.had = "", false
	}
	return saveSandbox(e.stateDir, rec, true)
}

// removeBox removes a box, if it is there.
func (e *Executor) removeBox(ctx context.Context, id string, forget bool) error {
	rec, err := loadBox(e.stateDir, id)
	if err != nil {
		return ignoreMissing(err)
	}
	e.mu.Lock()
	b := e.boxes[id]
	e.mu.Unlock()
	if b != nil {
		e.retire(b)
	}
	err = removeBox(ctx, e.engine, e.stateDir, rec)
	if forget && errors.Is(err, errOther) {
		rec.UID = 0 // it may run: its user is given back when nothing runs as that
		err = forgetBox(e.stateDir, rec)
	}
	return err
}

// Status is what a sandbox is at the moment.
type Status struct {
	Name      string           `json:"name"`
	Driver    Driver           `json:"driver"`
	Container engine.Container `json:"container"` // that was used last; the zero value if there is none
}

// Status looks at the container that was used last.
func (e *Executor) Status(ctx context.Context) (Status, error) {
	s := Status{Name: e.name}
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil || len(rec.Boxes) == 0 {
		return s, err
	}
	b, err := loadBox(e.stateDir, rec.Boxes[len(rec.Boxes)-1])
	if err != nil {
		return s, ignoreMissing(err)
	}
	s.Driver = b.Driver
	if s.Container, err = b.Inspect(ctx, e.engine); errors.Is(err, engine.ErrNoContainer) {
		return Status{Name: e.name}, nil
	}
	return s, err
}
