package nodeexec

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// peer is what a Fabric knows of one node.
type peer struct {
	f     *Fabric
	id    string
	talks *throttle

	mu      sync.Mutex
	told    fabric.Hello
	greeted bool
	asked   bool // since this program connected last
	asking  *question
	gone    bool // it left, or is not subscribed
	heard   time.Time
	said    time.Time // its last hello
	rivals  rivals
	turned  int // new lives or connections since turning
	turning time.Time
	begun   int           // starts that it answered since its last hello
	begins  int           // starts that it has yet to answer
	changed chan struct{} // closed when messages on their way may be lost
	ahead   time.Duration // of this machine's clock before the node's
}

// A node may announce a new life of its program, or a new connection, at most maxTurns
// times in turnsTime, since each time all waiting requests are repeated.
const (
	maxTurns  = 100
	turnsTime = 10 * time.Second
)

// askLimit bounds the wait for a node's answer whether it is online.
const askLimit = time.Second

func (p *peer) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// turnLocked counts a new life or connection, and reports whether it is within the
// limit.
func (p *peer) turnLocked() bool {
	if now := time.Now(); now.Sub(p.turning) > turnsTime {
		p.turned, p.turning = 0, now
	}
	p.turned++
	if p.turned == maxTurns+1 {
		p.f.warn("refused to follow a node that changes too often", "node", p.id)
	}
	return p.turned <= maxTurns
}

// storeHello stores a hello.
func (p *peer) storeHello(h fabric.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.rivalLocked(h.Boot, now) {
		p.rivals.host = h.Host
		return
	}
	news := !p.greeted || p.gone || p.told.Boot != h.Boot || p.told.Link != h.Link
	if news && !p.turnLocked() {
		return
	}
	p.told, p.greeted, p.heard, p.said, p.gone, p.begun = h, true, now, now, h.Leaving, 0
	p.tunedLocked(h.Clock, now)
	if news {
		p.change()
	}
}

// rebooted notes that the node's program has restarted, and its epoch.
func (p *peer) rebooted(boot string, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.Boot != boot && !p.rivalLocked(boot, time.Now()) && p.turnLocked() {
		p.told.Boot, p.told.Epoch, p.told.Leaving = boot, epoch, false
		p.change()
	}
}

// epochOf returns the epoch of a life of the node's program, or 0 if unknown.
func (p *peer) epochOf(boot string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.Boot != boot {
		return 0
	}
	return p.told.Epoch
}

// newEpoch stores the epoch of a refusal.
func (p *peer) newEpoch(boot string, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.Boot == boot && epoch != 0 {
		p.told.Epoch = epoch
	}
}

func (p *peer) heardOf() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard, p.gone = time.Now(), false
}

func (p *peer) away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	// It may be on its way back: callers ask again, and the server answers that at
	// once.
	p.gone, p.asked = true, false
}

// silent reports whether the node was silent for longer than patience since a request.
// Then it counts as away until it sends something.
func (p *peer) silent(since time.Time, patience time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quietLocked(since) <= patience {
		return false
	}
	p.gone, p.asked = true, true
	return true
}

// reconnected notes that this program's own connection was lost.
func (p *peer) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = false
	p.change()
}

// state returns the life of the node's program, empty if unknown, and a channel. The
// channel is closed when the life changes, or when messages on their way may be lost.
func (p *peer) state() (boot string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told.Boot, p.changed
}

func (p *peer) about() (h fabric.Hello, heard time.Time, online bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told, p.heard, p.onlineLocked()
}

// load estimates the node's load from its last hello and the starts since: a burst of
// starts is over before the next hello.
func (p *peer) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told.Load.With(p.begun + p.begins)
}

// begin counts a start, until done.
func (p *peer) begin() (done func(started bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begins++
	return func(started bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.begins--
		if started {
			p.begun++
		}
	}
}

func (p *peer) onlineLocked() bool {
	return p.greeted && !p.gone && time.Since(p.heard) <= p.told.Interval()*5/2
}

// quiet returns how long the node has been silent, counted from since at the earliest.
func (p *peer) quiet(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quietLocked(since)
}

func (p *peer) quietLocked(since time.Time) time.Duration {
	if p.heard.After(since) {
		since = p.heard
	}
	return time.Since(since)
}

// A question is one to a node, whether it is online.
type question struct {
	over    chan struct{} // closed when it was answered, or is given up
	dropped bool          // its caller gave up; set before over is closed
}

// online reports whether the node is online. It asks a node that was never asked; calls at
// the same time wait for the same answer.
func (p *peer) online(ctx context.Context) bool {
	for {
		p.mu.Lock()
		online, asked, changed, q := p.onlineLocked(), p.asked, p.changed, p.asking
		mine := !online && !asked && q == nil
		if mine {
			q = &question{over: make(chan struct{})}
			p.asked, p.asking = true, q
		}
		p.mu.Unlock()
		switch {
		case mine:
			p.ask(ctx, q, changed)
		case online || q == nil:
			return online
		default:
			select {
			case <-q.over:
			case <-ctx.Done():
				return false
			}
			if q.dropped {
				continue
			}
		}
		_, _, online = p.about()
		return online
	}
}

// ask asks the node whether it is online, and waits for the answer.
func (p *peer) ask(ctx context.Context, q *question, changed <-chan struct{}) {
	n, ch := p.f.expect(p)
	defer p.f.forget(n)
	err := p.f.conn.Conn().PublishRequest(fabric.WhoSubject(p.id), fabric.ToGateway(p.f.life, p.id, fabric.KindAnswer, n), nil)
	if err == nil {
		select {
		case <-changed:
		case <-ch:
		case <-time.After(askLimit):
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || ctx.Err() != nil {
		p.asked, q.dropped = false, ctx.Err() != nil
	}
	p.asking = nil
	close(q.over)
}
