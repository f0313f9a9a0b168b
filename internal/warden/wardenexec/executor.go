package wardenexec

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// Options of an Executor.
type Options struct {
	// Dir holds logs and records. It is made if it does not exist.
	Dir string
	// Records are used in place of a directory of the executor's own, and are
	// left open by its Close.
	Records *Records
	// Ephemeral keeps no records: nothing is to be found by a later life.
	Ephemeral bool

	// Connect returns a new connection to the warden; with start, it makes
	// one if there is none. ErrGone: there is none, and what the last one
	// knew is lost.
	Connect func(ctx context.Context, start bool) (wire.Conn, error)
	// Wake has the place go on if it is frozen, before something is asked of a process in
	// it. Nil: it is never frozen.
	Wake func(ctx context.Context) error
	// Frozen is asked when an answer is late. The error is that there will be none, as the
	// place is frozen, and is not to go on for what was asked. Nil: it is never frozen.
	Frozen func(ctx context.Context) error
	// EndedIdle reports whether a warden that is gone ended with nothing to
	// keep; wardens are told apart by what they say in Hello. Nil: none does.
	EndedIdle func(warden uint64) bool
	// HowEnded tells how the place where a warden was that is gone ended, if
	// Connect cannot; empty: that is not known. Nil: it never is.
	HowEnded func(warden uint64) string
	// Untrusted says that the warden may lie, and that programs beside it may
	// meddle with the descriptors it holds.
	Untrusted bool

	// Prepare turns a valid command into what the warden is to execute.
	Prepare func(ctx context.Context, cmd corral.Command) (pathenv.Plan, error)
	// Info is what is the same for every process here.
	Info corral.Info
	// OutputRate is how many bytes of output in a second are taken from a
	// process that is started or found now; 0: all that it writes. Nil: that.
	OutputRate func() int64

	Log *slog.Logger
}

// pace is what output of a process is taken by.
func (o *Options) pace() *outlog.Pace {
	if o.OutputRate == nil {
		return nil
	}
	return outlog.NewPace(o.OutputRate())
}

// An Executor runs commands under a warden.
type Executor struct {
	opts    Options
	log     *slog.Logger
	records *records
	own     bool            // records are closed with this
	life    context.Context // ends with Close
	end     context.CancelFunc
	wg      sync.WaitGroup

	connecting turn.Lock // one connection at a time is made

	acks    acks
	watcher *watcher

	mu     sync.Mutex
	client *client // the connection; nil before the first and between two
	procs  map[string]*process
	closed bool
	login  string // the reason that was logged last: there is no snapshot of the login profile
	// Ends that could not be recorded, as on a full disk, and are tried again.
	unnoted []unnoted
	noting  sync.Mutex // held while they are
	// How many connections in a row soon broke, and until when none is made.
	broke     int
	notBefore time.Time
}

// New returns an Executor, which connects when it is first needed.
func New(opts Options) (*Executor, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	rec, own, err := opts.open()
	if err != nil {
		return nil, err
	}
	w, err := useWatcher()
	if err != nil {
		if own {
			rec.close()
		}
		return nil, err
	}
	e := &Executor{opts: opts, log: opts.Log, records: rec, own: own, watcher: w, procs: map[string]*process{},
		connecting: turn.New(), acks: acks{sending: turn.New()}}
	e.life, e.end = context.WithCancel(context.Background())
	return e, nil
}

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the executor is closed")

// settleTimeout bounds how long Close waits for what has ended to be recorded.
// A variable for tests.
var settleTimeout = 2 * time.Second

// settle waits until the end of every ended process is recorded, and the warden
// knows that.
func (e *Executor) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	e.noteNow()
	for _, p := range e.all() {
		if p.running() {
			continue
		}
		select {
		case <-p.recorded:
		case <-ctx.Done():
			return // the next life does it
		}
	}
	_ = e.acks.flush(ctx, e.current()) // else the next life does it
}

func (e *Executor) all() []*process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.procs))
}

// Running is how many processes run that this life has started or looked for.
func (e *Executor) Running() int {
	n := 0
	for _, p := range e.all() {
		if p.running() {
			n++
		}
	}
	return n
}

// Close lets go of the warden and of every process; they go on. A call that waits
// for one gets ErrUnavailable.
func (e *Executor) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	c := e.client
	e.mu.Unlock()
	e.settle(context.Background())
	e.end()
	// Before descriptors are closed that a start may be about to send.
	if c != nil {
		c.close()
	}
	for _, p := range e.all() {
		p.abandon()
	}
	e.wg.Wait()
	e.watcher.leave()
	if e.own {
		e.records.close()
	}
	return nil
}

// Shutdown asks the warden to end, if it has nothing left to keep. It reports
// whether the warden agreed.
func (e *Executor) Shutdown(ctx context.Context) bool {
	e.mu.Lock()
	c := e.client
	e.mu.Unlock()
	if c == nil {
		return false
	}
	e.settle(ctx)
	_, err := c.call(ctx, &wire.Message{Type: wire.Shutdown}, nil)
	return err == nil
}

// EndAfter has the warden end some time from now, and its container with all that runs
// in it, also if no gateway is there then; 0: it does not end by itself.
// errors.ErrUnsupported: it cannot. ErrGone: there is none.
func (e *Executor) EndAfter(ctx context.Context, after time.Duration) error {
	c, err := e.connection(ctx, false)
	if err != nil {
		return err
	}
	if !c.ends {
		return corral.Errorf(errors.ErrUnsupported, "recreate the sandbox (corral sandbox recreate)", "the sandbox does not end by itself: its warden is of an earlier version")
	}
	_, err = c.call(ctx, &wire.Message{Type: wire.EndAfter, Timeout: uint64(max(after, 0))}, nil)
	return err
}

// connection returns the connection, making one if there is none.
func (e *Executor) connection(ctx context.Context, start bool) (*client, error) {
	if c := e.current(); c != nil {
		return c, nil
	}
	if err := e.connecting.Take(ctx); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "others wait for the warden to answer: %w", err)
	}
	defer e.connecting.Release()
	if c := e.current(); c != nil {
		return c, nil
	}
	c, err := e.connect(ctx, start)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		c.close()
		return nil, errClosed
	}
	e.client = c
	e.wg.Add(2)
	e.mu.Unlock()
	go func() {
		defer e.wg.Done()
		c.serve(e.event)
		e.disconnected(c)
	}()
	go func() { // which no caller's context bounds
		defer e.wg.Done()
		e.rejoin(c, e.all())
	}()
	e.acknowledgeOld(c)
	_ = e.acks.flush(ctx, c) // also what waits since there was no connection; else the timer does it
	return c, nil
}

// maxGreetings is how many connections in a row may be cut before they are used.
const maxGreetings = 3

// connect makes a connection. One that is cut at once was a warden's that was about to
// end when it had nothing left to keep: the next is another warden's.
func (e *Executor) connect(ctx context.Context, start bool) (*client, error) {
	for n := 1; ; n++ {
		if err := e.rest(ctx); err != nil {
			return nil, err
		}
		conn, err := e.opts.Connect(ctx, start)
		if err != nil {
			return nil, err
		}
		c, err := greet(ctx, conn)
		switch {
		case err == nil:
			return c, nil
		case n == maxGreetings || ctx.Err() != nil || !isCut(err):
			return nil, corral.Errorf(corral.ErrUnavailable, "", "%w", err)
		}
	}
}

// isCut reports whether the other side has closed a connection.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// acknowledgeOld lets the warden forget what an earlier life recorded, or
// removed, and did not live to acknowledge.
func (e *Executor) acknowledgeOld(c *client) {
	if e.opts.Ephemeral {
		return
	}
	if err := e.records.believe(c); err != nil {
		e.records.log.Error("cannot note again what the warden runs", "error", err)
	}
	for id, item := range c.items {
		if item.Flags&wire.FlagEnded == 0 || corral.ValidateID(id) != nil {
			continue
		}
		started, rec, err := e.records.find(id)
		if err == nil && !started && e.records.someMissing() {
			continue
		}
		if err == nil && (rec != nil || !started) {
			e.acks.add(id, e.current)
		}
	}
}

func (e *Executor) current() *client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client
}

// event takes what the warden says of a process by itself.
func (e *Executor) event(m *wire.Message) {
	e.mu.Lock()
	p := e.procs[m.ID]
	e.mu.Unlock()
	if p != nil {
		p.event(m)
	}
}

// Start implements corral.Executor.
func (e *Executor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
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
	p, mine, err := e.reserve(ctx, cmd, given)
	if err != nil {
		return nil, err
	}
	if !mine {
		if p.tag.Digest != digest {
			return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
		}
		return p, nil
	}
	p.tag.Digest = digest
	waiting, done := e.unlessFrozen(ctx)
	err = whyFrozen(waiting, p.start(waiting, cmd))
	done()
	if err != nil {
		// What may be running stays known under its ID.
		if !errors.Is(err, corral.ErrLost) {
			e.forget(p)
		}
	}
	p.settled(err)
	if err != nil {
		return nil, err
	}
	e.catchUp(p)
	if p.tag.Digest != digest {
		return nil, corral.Errorf(corral.ErrConflict, "use a new id for a new command", "id %s was used for another command", cmd.ID)
	}
	return p, nil
}

// reserve returns the process with the command's ID: a new one, which is then
// the caller's to start, or one that was started before.
func (e *Executor) reserve(ctx context.Context, cmd corral.Command, given bool) (p *process, mine bool, err error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, false, errClosed
		}
		p := e.procs[cmd.ID]
		if p == nil {
			var asked bool
			if given {
				e.mu.Unlock()
				if err := e.acks.flushIf(ctx, cmd.ID, e.current()); err != nil { // the warden may still have it
					return nil, false, corral.Errorf(corral.ErrUnavailable, "", "the command was not started: %w", err)
				}
				started, rec, err := e.records.find(cmd.ID)
				if err != nil {
					return nil, false, err
				}
				asked = started
				if rec != nil {
					p, err := e.fromRecord(cmd.ID, rec)
					return p, false, err
				}
				e.mu.Lock()
				if e.procs[cmd.ID] != nil { // another call was faster
					e.mu.Unlock()
					continue
				}
			}
			p = newProcess(e, cmd.ID)
			p.asked = asked
			e.procs[cmd.ID] = p
			e.mu.Unlock()
			return p, true, nil
		}
		e.mu.Unlock()
		select {
		case <-p.ready:
		case <-ctx.Done():
			return nil, false, corral.Errorf(corral.ErrLost, "attach to it by its id", "process %s is being started by another call: %w", cmd.ID, ctx.Err())
		}
		if p.startErr == nil {
			return p, false, nil
		}
		if errors.Is(p.startErr, corral.ErrLost) {
			return nil, false, p.startErr
		}
	}
}

// forget drops a process that was not started, or that is over.
func (e *Executor) forget(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.procs[p.id] == p {
		delete(e.procs, p.id)
	}
}

// Attach implements corral.Executor.
func (e *Executor) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	e.mu.Lock()
	p, closed := e.procs[id], e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if p == nil {
		return e.find(ctx, id)
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, corral.Errorf(corral.ErrUnavailable, "", "process %s is being started: %w", id, ctx.Err())
	}
	switch {
	case errors.Is(p.startErr, corral.ErrLost): // until the answer comes, or none can come any more
		return nil, corral.Errorf(corral.ErrUnavailable, "", "it is not known yet whether process %s was started", id)
	case p.startErr != nil:
		return nil, p.startErr
	}
	return p, nil
}

// find looks for a process of an earlier life.
func (e *Executor) find(ctx context.Context, id string) (corral.Process, error) {
	known, rec, err := e.records.find(id)
	if err == nil && !known && e.records.someMissing() { // a warden may say more
		if _, err = e.connection(ctx, false); err == nil || errors.Is(err, ErrGone) {
			known, rec, err = e.records.find(id)
		}
	}
	if err != nil {
		return nil, err
	}
	if rec != nil {
		return e.fromRecord(id, rec)
	}
	if !known {
		return nil, corral.Errorf(corral.ErrNotFound, "", "no process has the id %s", id)
	}
	c, err := e.connection(ctx, false)
	if err != nil && !errors.Is(err, ErrGone) {
		return nil, err
	}
	p, mine, rerr := e.reserve(ctx, corral.Command{ID: id}, true)
	if rerr != nil {
		return nil, rerr
	}
	if !mine {
		return p, nil
	}
	if err == nil {
		err = p.adopt(ctx, c)
	}
	switch {
	case (errors.Is(err, ErrGone) || errors.Is(err, corral.ErrNotFound)) && e.neverStarted(id, c):
		err = corral.Errorf(corral.ErrNotFound, "it is safe to start it again", "process %s was about to be started, and was not", id)
		e.forget(p)
		p.pipesNamed.Store(true) // perhaps
		p.removePipes()
		err = errors.Join(err, e.records.notStarted(id))
	case errors.Is(err, ErrGone) || errors.Is(err, corral.ErrNotFound):
		p.tag.Info.Info = e.opts.Info
		p.tag.Info.ID = id
		p.tag.Limit = e.records.limit(id)
		p.setLog(outlog.New(e.records.root, id, p.tag.Limit))
		if old, oerr := outlog.Open(e.records.root, id, p.tag.Limit); oerr == nil {
			p.setLog(old)
		}
		if end := new(Ended); e.opts.HowEnded != nil && !errors.As(err, &end) {
			err = &Ended{How: e.opts.HowEnded(e.records.startedBy(id))}
		}
		p.pipesNamed.Store(true) // perhaps
		p.lost(err)
		err = nil
	case err != nil:
		e.forget(p)
	}
	p.settled(err)
	if err != nil {
		return nil, err
	}
	e.catchUp(p)
	return p, nil
}

// neverStarted reports whether it is certain that a process of an earlier life,
// which c does not know (nil: there is no warden), was not started: its warden
// is the one that says so, or ended with nothing to keep.
func (e *Executor) neverStarted(id string, c *client) bool {
	warden := e.records.startedBy(id)
	switch {
	case warden == 0:
		return false
	case c != nil && c.warden == warden:
		return true
	}
	return e.opts.EndedIdle != nil && e.opts.EndedIdle(warden)
}
