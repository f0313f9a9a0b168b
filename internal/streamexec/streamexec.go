package streamexec

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// A Place is a place that runs commands.
type Place interface {
	// Prepare plans the run of a valid command. It runs nothing, and ctx may cancel it.
	Prepare(ctx context.Context, cmd corral.Command) (Job, error)
}

// A Job is a command that can be started.
type Job struct {
	// Info is the Info of the process, without the ID, the PID and the time.
	Info corral.Info
	// Start runs the command. info is complete except for the PID, which Start may set,
	// and Start may correct the directory. After an error that is neither a *Failure
	// nor ErrLost, nothing ran.
	Start func(ctx context.Context, info *corral.Info) (Stream, error)
}

// A Stream is a running command.
type Stream interface {
	// Read yields the next output and its stream; io.EOF after the last. One
	// goroutine reads.
	Read(p []byte) (int, corral.Stream, error)
	io.Writer
	CloseWrite() error
	Resize(ctx context.Context, size corral.Size) error
	// Result waits for the end and returns code and signal, as far as this end knows
	// them.
	Result(ctx context.Context) (corral.Exit, error)
	// Expire ends the command because its time-out expired. struck reports that a later
	// end is caused by that. After an error it is called again.
	Expire(ctx context.Context, grace time.Duration) (struck bool, err error)
	// Settle returns the final exit, given the values of Result and whether Expire
	// struck before.
	Settle(exit corral.Exit, err error, struck bool) (corral.Exit, error)
	// Close releases the stream.
	Close() error
}

// Paced is a Stream whose output is read at a limited rate. Read must not wait for
// that: its caller could not tell it from waiting for the command.
type Paced interface {
	// Took records that n bytes were read, and returns how long to pause.
	Took(n int64) time.Duration
}

// A Failure is the error of a program that cannot be executed. Nothing ran. A shell
// would exit with the code, and print the text.
type Failure struct {
	Code int    // 126 or 127
	Text string // one line
}

func (f *Failure) Error() string { return f.Text }

// Options of Processes. All but Log are required.
type Options struct {
	Dir    string        // holds logs and records; made if it does not exist
	Retain time.Duration // the least time that an ended process is kept if it is not removed
	// Name names the thing that Close closes, in errors: "the sandbox".
	Name string

	// Signal signals the rest of a process: ErrEnded if nothing is left. held: a
	// descendant held the output when the command ended.
	Signal func(ctx context.Context, info corral.Info, s corral.Signal, running, held bool) error
	// Unseen returns the ErrLost of a process that an earlier life of this program
	// started and did not see end.
	Unseen func(id string) error

	Log *slog.Logger
}

// Processes are the processes of one directory. Every method may be called from any
// goroutine.
type Processes struct {
	opts    Options
	log     *slog.Logger
	records *records
	life    context.Context // ends with Close
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	procs  map[string]*process // starting or running processes
	pruned time.Time           // when prune was last called
	closed bool
}

// Open opens a directory. Close closes it.
func Open(opts Options) (*Processes, error) {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	rec, err := openRecords(opts.Dir, opts.Retain)
	if err != nil {
		return nil, err
	}
	x := &Processes{opts: opts, log: opts.Log, records: rec, procs: map[string]*process{}, pruned: time.Now()}
	x.life, x.end = context.WithCancel(context.Background())
	return x, nil
}

func (x *Processes) errClosed() error {
	return corral.Errorf(corral.ErrUnavailable, "", "%s is closed", x.opts.Name)
}

// Close releases every command. Commands may go on, but their end will not be known:
// they are lost.
func (x *Processes) Close() error {
	x.mu.Lock()
	closed := x.closed
	x.closed = true
	x.mu.Unlock()
	if closed {
		return nil
	}
	x.end()
	x.wg.Wait()
	return x.records.close()
}

// Start is corral.Executor.Start, at a place.
func (x *Processes) Start(ctx context.Context, place Place, cmd corral.Command) (corral.Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "the command was not started: %w", err)
	}
	digest := cmd.Digest()
	given := cmd.ID != ""
	if !given {
		cmd.ID = corral.NewID()
	}
	for {
		p, mine, err := x.reserve(cmd.ID, digest, given)
		if err != nil {
			return nil, err
		}
		if mine {
			if err := p.prepare(ctx, place, cmd); err != nil {
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
			continue // another program's attempt, which left nothing
		case p.startErr != nil:
			return nil, p.startErr
		case p.rec.Digest != digest:
			return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
		}
		return p, nil
	}
}

// reserve returns the process with that ID: an existing one, or a new one that the
// caller has to prepare.
func (x *Processes) reserve(id, digest string, given bool) (p *process, mine bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, false, x.errClosed()
	}
	if p := x.procs[id]; p != nil {
		return p, false, nil
	}
	if given {
		if p, err := x.find(id); err != nil || p != nil {
			return p, false, err
		}
	}
	p = &process{x: x, id: id, ready: make(chan struct{}), done: make(chan struct{})}
	p.rec.Digest = digest
	x.procs[id] = p
	if now := time.Now(); now.Sub(x.pruned) >= pruneEvery {
		x.pruned = now
		x.wg.Go(x.prune)
	}
	x.wg.Add(1) // until prepare fails or the process is over
	return p, true, nil
}

// pruneEvery is the time between two searches for old processes.
const pruneEvery = time.Hour

// prune removes old processes while this program runs.
func (x *Processes) prune() {
	err := x.records.prune(time.Now().Add(-x.opts.Retain), func(id string) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.procs[id] != nil
	})
	if err != nil {
		x.log.Warn("cannot remove processes that nobody removed", "directory", x.opts.Dir, "error", err)
	}
}

// Attach is corral.Executor.Attach.
func (x *Processes) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	p, err := x.lookup(id)
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
	if p.startErr != nil && !errors.Is(p.startErr, corral.ErrLost) {
		return nil, corral.Errorf(corral.ErrNotFound, "", "process %s was not started: %w", id, p.startErr)
	}
	return p, nil
}

func (x *Processes) lookup(id string) (*process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, x.errClosed()
	}
	if p := x.procs[id]; p != nil {
		return p, nil
	}
	return x.find(id)
}

// find returns an ended process from its record; nil if there is none.
func (x *Processes) find(id string) (*process, error) {
	rec, err := x.records.find(id)
	if err != nil || rec == nil {
		return nil, err
	}
	log, err := outlog.Open(x.records.root, id, rec.Limit)
	if err != nil {
		return nil, err
	}
	p := &process{x: x, id: id, ready: make(chan struct{}), done: make(chan struct{}), rec: *rec, log: log}
	log.End()
	switch {
	case rec.Exit != nil:
		p.exit = *rec.Exit
	case rec.Lost != "":
		p.err = p.lost(rec.Lost)
	default:
		p.err = x.opts.Unseen(id)
	}
	close(p.ready)
	close(p.done)
	return p, nil
}

// forget drops a process that has ended or never ran.
func (x *Processes) forget(p *process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.procs[p.id] == p {
		delete(x.procs, p.id)
	}
}
