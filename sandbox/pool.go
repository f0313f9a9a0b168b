package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A Pool has unused containers ready. A sandbox that needs one takes it from the
// pool of its Config, if it would make one just like it; from then on it belongs to
// that sandbox and never to another. A pool is filled in the background and emptied
// by Close.
type Pool struct {
	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup
	wake chan struct{} // holds a token when there may be something to do

	mu     sync.Mutex
	set    *setup
	size   int
	ready  []*warm
	claims claims // since the last container was begun
}

// A warm box is one with a connection to its warden, over which nothing was said.
type warm struct {
	*box
	conn wire.Conn
}

// poolName is what the IDs of boxes of pools begin with.
const poolName = "pool"

// NewPool makes a pool of size containers as cfg says; Name counts for nothing.
// The first is there some time later.
func NewPool(cfg Config, size int) (*Pool, error) {
	set, err := poolSetup(cfg)
	if err != nil {
		return nil, err
	}
	p := &Pool{wake: make(chan struct{}, 1), set: set, size: size}
	p.life, p.end = context.WithCancel(context.Background())
	p.wg.Go(p.fill)
	return p, nil
}

func poolSetup(cfg Config) (*setup, error) {
	cfg.Name = poolName
	if cfg.Driver == DriverExec {
		return nil, corral.Errorf(corral.ErrInvalid, "leave out the pool, or use the driver auto", "there is no pool for the driver exec")
	}
	if len(cfg.Mounts.Secrets) > 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "leave out the pool, or the secrets", "there is no pool for sandboxes with secrets: each has a directory of its own for them")
	}
	return newSetup(cfg)
}

// Configure has the pool be filled with containers as cfg says, and as many.
// Others are removed. Engine, StateDir and Log stay.
func (p *Pool) Configure(cfg Config, size int) error {
	p.mu.Lock()
	old := p.set
	p.mu.Unlock()
	cfg.Engine, cfg.StateDir, cfg.Log = old.Engine, old.StateDir, old.Log
	set, err := poolSetup(cfg)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.set, p.size = set, size
	p.mu.Unlock()
	p.look()
	return nil
}

// Ready is how many containers wait.
func (p *Pool) Ready() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready)
}

// Size is how many containers are to wait.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Close removes the containers that were not taken.
func (p *Pool) Close() error {
	p.end()
	p.wg.Wait()
	p.mu.Lock()
	list := p.ready
	p.ready = nil
	p.mu.Unlock()
	return removeWarm(context.Background(), list)
}

func (p *Pool) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// claim takes a box that fits out of the pool; nil if there is none.
func (p *Pool) claim(set *setup) *warm {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.ready {
		if w.Hash == set.hash && w.state == set.StateDir && (set.Driver == DriverAuto || set.Driver == w.Driver) {
			p.ready = append(p.ready[:i:i], p.ready[i+1:]...)
			p.claims.add(time.Now())
			p.look()
			return w
		}
	}
	return nil
}

// Attempts to fill a pool that fail are repeated after a second, then up to
// every minute.
const (
	firstFill = time.Second
	lastFill  = time.Minute
)

// A pool is filled again a moment after it was taken from last: to make a
// container takes a processor, which the first commands are to have. Who takes
// from it all the time does not keep it empty.
const (
	rest    = 100 * time.Millisecond
	maxRest = time.Second
)

// claims are the first and the last of some.
type claims struct{ first, last time.Time }

func (c *claims) add(now time.Time) {
	if c.first.IsZero() {
		c.first = now
	}
	c.last = now
}

// rest is how long to wait now; not more than 0: it is time.
func (c claims) rest(now time.Time) time.Duration {
	if c.first.IsZero() {
		return 0
	}
	return min(rest-now.Sub(c.last), maxRest-now.Sub(c.first))
}

// fill keeps the pool full, and ends with Close.
func (p *Pool) fill() {
	delay := firstFill
	for p.life.Err() == nil {
		set, drop, more := p.plan()
		if err := removeWarm(p.life, drop); err != nil && p.life.Err() == nil {
			set.Log.Warn("cannot remove a container of the pool", "error", err)
		}
		again := (<-chan time.Time)(nil)
		wait := p.rest(more)
		if wait > 0 {
			again = time.After(wait)
		} else if more {
			w, err := set.makeWarm(p.life)
			if err == nil {
				p.mu.Lock()
				p.ready = append(p.ready, w)
				p.mu.Unlock()
				delay = firstFill
				continue
			}
			if p.life.Err() == nil {
				set.Log.Warn("cannot fill the pool of containers; trying again", "error", err, "hint", corral.Hint(err), "delay", delay)
			}
			again, delay = time.After(delay), min(2*delay, lastFill)
		}
		select {
		case <-p.wake:
		case <-again:
		case <-p.life.Done():
		}
	}
}

// rest is how long first commands are still to have the machine, before a
// container is made; the count of claims begins anew with that.
func (p *Pool) rest(more bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !more {
		return 0
	}
	wait := p.claims.rest(time.Now())
	if wait <= 0 {
		p.claims = claims{}
	}
	return wait
}

// plan takes out what does not belong there, and says whether more is wanted.
func (p *Pool) plan() (set *setup, drop []*warm, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keep []*warm
	for _, w := range p.ready {
		if w.Hash == p.set.hash && len(keep) < p.size {
			keep = append(keep, w)
		} else {
			drop = append(drop, w)
		}
	}
	p.ready = keep
	return p.set, drop, len(keep) < p.size
}

// removeWarm removes boxes that were not taken, with their workspaces.
func removeWarm(ctx context.Context, list []*warm) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, w := range list {
		wg.Go(func() {
			defer closeLock(w.lock)
			errs[i] = errors.Join(w.conn.Close(), removeUnclaimed(ctx, w.engine, w.state, w.boxRecord))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// removeUnclaimed removes a box that is no sandbox's.
func removeUnclaimed(ctx context.Context, engine engine.Engine, state string, rec boxRecord) error {
	if _, err := removeContainer(ctx, engine, state, rec); err != nil {
		return err
	}
	if rec.Workspace != "" {
		if err := removeWorkspace(ctx, engine, state, rec.Workspace); err != nil {
			return err
		}
	}
	return forgetBox(state, rec)
}

// makeWarm makes a box that belongs to no sandbox yet.
func (s *setup) makeWarm(ctx context.Context) (_ *warm, err error) {
	info, err := s.Engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	s = s.at(info)
	driver := s.Driver
	if driver == DriverAuto {
		driver = DriverFDs
		if !s.passesFiles(info) {
			driver = DriverFrames
		}
	}
	mount, err := s.mountWarden(ctx, info)
	if err != nil {
		return nil, err
	}
	r := s.newBox(poolName, driver, info)
	r.Warden = mount.Source
	if s.hasPrivate() {
		r.Workspace = r.ID
	}
	spec, err := s.spec(info, r, mount)
	if err != nil {
		return nil, err
	}
	r.Pooled = true
	if err := s.note(ctx, info, &spec, &r); err != nil {
		return nil, err
	}
	b := &box{boxRecord: r, state: s.StateDir, dir: boxDir(s.StateDir, r.ID), engine: s.Engine, log: s.Log, ids: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeUnclaimed(context.WithoutCancel(ctx), s.Engine, s.StateDir, b.boxRecord))
			closeLock(b.lock)
		}
	}()
	if b.lock, err = lockBox(b.dir); err != nil { // before it can be swept
		return nil, err
	}
	if r.Workspace != "" {
		if err := s.makePrivate(ctx, workspaceDir(s.StateDir, r.Workspace)); err != nil {
			return nil, err
		}
	}
	if err := s.create(ctx, spec, info, &b.boxRecord); err != nil {
		return nil, err
	}
	if err := s.setUp(ctx, b); err != nil {
		return nil, err
	}
	conn, err := b.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	return &warm{b, conn}, nil
}

// claim takes a box of the pool for this sandbox; nil if there is none to take,
// or it does not answer. The caller notes it.
func (e *Executor) claim(ctx context.Context, set *setup, rec *sandboxRecord) (*box, error) {
	if set.Pool == nil || set.hasPrivate() && rec.Workspace != "" {
		return nil, nil
	}
	w := set.Pool.claim(set)
	if w == nil {
		return nil, nil
	}
	b := w.box
	b.Sandbox, b.engine, b.log, b.first = e.name, e.engine, e.log, w.conn
	b.Taken = now()
	err := writeJSON(boxPath(e.stateDir, b.ID), b.boxRecord, false)
	reached(stepClaimed)
	if err == nil {
		b.warden, err = e.wardenOf(b)
	}
	if err == nil {
		err = b.meet(ctx)
	}
	if err != nil {
		closed := w.conn.Close
		if b.warden != nil {
			closed = b.warden.Close
		}
		err = errors.Join(err, closed())
		closeLock(b.lock)
		err = errors.Join(err, removeUnclaimed(ctx, e.engine, e.stateDir, b.boxRecord)) // what stays is swept
		e.log.Warn("a container of the pool cannot be used; making another", "container", b.Container, "error", err)
		return nil, nil
	}
	if b.Workspace != "" {
		rec.Workspace = b.Workspace
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.boxes[b.ID] = b
	return b, nil
}

// sweepUnclaimed removes a box of a pool that is gone.
func sweepUnclaimed(ctx context.Context, engine engine.Engine, state string, rec boxRecord) (bool, error) {
	lock, err := lockBox(boxDir(state, rec.ID))
	if errors.Is(err, errNoBox) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closeLock(lock)
	alone, err := (&box{lock: lock}).alone()
	if err != nil || !alone {
		return false, err
	}
	// It may have been taken, and let go of, meanwhile.
	if now, err := loadBox(state, rec.ID); err != nil || now.Sandbox != "" {
		return false, ignoreMissing(err)
	}
	if err := removeUnclaimed(ctx, engine, state, rec); err != nil {
		return false, fmt.Errorf("cannot remove a container of a pool that is gone: %w", err)
	}
	return true, nil
}
