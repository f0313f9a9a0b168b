package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
	"github.com/corral-exec/corral/internal/wardenexec"
)

// execOptions of an execDriver. Log is optional.
type execOptions struct {
	Engine ExecEngine
	// Container returns a container that runs, made if need be.
	Container func(ctx context.Context) (id string, err error)
	// Kill ends that container and whatever runs in it. The next Container
	// is another one.
	Kill func(ctx context.Context, id string) error
	// Prepare turns a valid command into what is to be executed.
	Prepare func(ctx context.Context, cmd corral.Command) (wardenexec.Prepared, error)

	Dir  string      // holds logs and records; made if it does not exist
	Info corral.Info // what is the same for every process here
	User string      // uid:gid
	Log  *slog.Logger
}

// execDriver is the last resort: a corral.Executor over the engine's exec API,
// for images in which no warden can run. What that API lacks is lacking here,
// and answered with errors.ErrUnsupported; docs/exec-driver.md is the list.
//
// Records are one file a process, ID.json, beside its log: what was started,
// written before it is, and how it ended. A process that an earlier life
// started and did not see ending is lost.
type execDriver struct {
	opts    execOptions
	log     *slog.Logger
	records *execRecords
	life    context.Context // ends with Close
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	procs  map[string]*execProcess // those that are being started or run
	closed bool
}

func newExecDriver(opts execOptions) (*execDriver, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	rec, err := openExecRecords(opts.Dir)
	if err != nil {
		return nil, err
	}
	d := &execDriver{opts: opts, log: opts.Log, records: rec, procs: map[string]*execProcess{}}
	d.life, d.end = context.WithCancel(context.Background())
	return d, nil
}

var errExecClosed = corral.Errorf(corral.ErrUnavailable, "", "the sandbox is closed")

// Close lets go of every command. They go on, but nobody will learn how they
// end: they are lost.
func (d *execDriver) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.end()
	d.wg.Wait()
	return d.records.close()
}

// execWarning goes with every process.
const execWarning = "This sandbox runs commands through its engine's exec API: they cannot be signalled, a time-out ends every command in the sandbox, and what still runs is lost when Corral ends."

// withoutWarden is the hint of every answer that something is not supported.
const withoutWarden = "use the sandbox driver fds or frames, for which the image must let a warden run"

// Start implements corral.Executor.
func (d *execDriver) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "the command was not started: %w", err)
	}
	digest := ""
	if cmd.ID == "" {
		cmd.ID = corral.NewID()
	} else {
		digest = cmd.Digest()
	}
	for {
		p, mine, err := d.reserve(cmd.ID, digest)
		if err != nil {
			return nil, err
		}
		if mine {
			if err := p.prepare(ctx, cmd); err != nil {
				return nil, err
			}
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			return nil, corral.Errorf(corral.ErrLost, "attach to it by its id to see whether it runs", "process %s is being started: %w", cmd.ID, ctx.Err())
		}
		switch {
		case p.startErr != nil && !mine && !errors.Is(p.startErr, corral.ErrLost):
			continue // somebody else's attempt, of which nothing is left
		case p.startErr != nil:
			return nil, p.startErr
		case p.rec.Digest != digest:
			return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
		}
		return p, nil
	}
}

// reserve returns the process with that ID: one that was started before, or a
// new one, which is then the caller's to prepare.
func (d *execDriver) reserve(id, digest string) (p *execProcess, mine bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, errExecClosed
	}
	if p := d.procs[id]; p != nil {
		return p, false, nil
	}
	if digest != "" {
		if p, err := d.find(id); err != nil || p != nil {
			return p, false, err
		}
	}
	p = &execProcess{d: d, id: id, ready: make(chan struct{}), done: make(chan struct{})}
	p.rec.Digest = digest
	d.procs[id] = p
	d.wg.Add(1) // until prepare fails or the process is over
	return p, true, nil
}

// Attach implements corral.Executor.
func (d *execDriver) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	p, err := d.lookup(id)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, corral.Errorf(corral.ErrNotFound, "", "no process has the id %s", id)
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, corral.Errorf(corral.ErrUnavailable, "", "process %s is being started: %w", id, ctx.Err())
	}
	if p.startErr != nil {
		return nil, corral.Errorf(corral.ErrNotFound, "", "process %s was not started: %w", id, p.startErr)
	}
	return p, nil
}

func (d *execDriver) lookup(id string) (*execProcess, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errExecClosed
	}
	if p := d.procs[id]; p != nil {
		return p, nil
	}
	return d.find(id)
}

// find returns a process that is over, as its record has it; nil if there is
// none.
func (d *execDriver) find(id string) (*execProcess, error) {
	rec, err := d.records.find(id)
	if err != nil || rec == nil {
		return nil, err
	}
	log, err := outlog.Open(d.records.root, id, rec.Limit)
	if err != nil {
		return nil, err
	}
	p := &execProcess{d: d, id: id, ready: make(chan struct{}), done: make(chan struct{}), rec: *rec, log: log}
	log.End()
	if rec.Exit != nil {
		p.exit = *rec.Exit
	} else {
		p.err = p.unseen()
	}
	close(p.ready)
	close(p.done)
	return p, nil
}

// forget drops a process that is over, or of which nothing is left.
func (d *execDriver) forget(p *execProcess) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.procs[p.id] == p {
		delete(d.procs, p.id)
	}
}

// kill ends a container for the sake of one process. The others in it did not
// end by themselves.
func (d *execDriver) kill(p *execProcess) error {
	d.mu.Lock()
	for _, q := range d.procs {
		if q != p && q.container == p.container {
			q.doomed.Store(true)
		}
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(d.life, killTime)
	defer cancel()
	if err := d.opts.Kill(ctx, p.container); err != nil {
		return fmt.Errorf("cannot kill the container of process %s, whose time is up: %w", p.id, err)
	}
	return nil
}

// killTime bounds one attempt, and killAgain is the pause before the next.
const (
	killTime  = time.Minute
	killAgain = time.Second
)
