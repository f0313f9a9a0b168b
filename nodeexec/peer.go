package nodeexec

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/fabric"
)

// peer is what a Fabric knows of one node.
type peer struct {
	f  *Fabric
	id string

	mu      sync.Mutex
	told    fabric.Hello
	greeted bool
	asked   bool // since this program is connected
	gone    bool // it left, or nobody listens where it would
	heard   time.Time
	changed chan struct{} // closed when what was on its way may be lost
}

// askLimit is how long a node has to answer whether it is there.
const askLimit = time.Second

func (p *peer) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// greet takes a hello.
func (p *peer) greet(h fabric.Hello) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := !p.greeted || p.gone || p.told.Boot != h.Boot || p.told.Link != h.Link
	p.told, p.greeted, p.heard, p.gone = h, true, time.Now(), h.Leaving
	if news {
		p.change()
	}
}

// rebooted takes notice that the node's program was started again.
func (p *peer) rebooted(boot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.Boot != boot {
		p.told.Boot = boot
		p.change()
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
	// It may be on its way back: whoever wants to know asks again, which the
	// server answers at once.
	p.gone, p.asked = true, false
}

// reconnected: it is this program that was away.
func (p *peer) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = false
	p.change()
}

// state is the life of the node's program, empty if it is not known, and what
// is closed when that changes, or when what was on its way may be lost.
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

func (p *peer) onlineLocked() bool {
	return p.greeted && !p.gone && time.Since(p.heard) <= p.told.Interval()*5/2
}

// quiet is for how long nothing was heard, since a moment.
func (p *peer) quiet(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard.After(since) {
		since = p.heard
	}
	return time.Since(since)
}

// online reports whether the node is there. One that was never asked is asked.
func (p *peer) online(ctx context.Context) bool {
	p.mu.Lock()
	online, asked, changed := p.onlineLocked(), p.asked, p.changed
	p.asked = true
	p.mu.Unlock()
	if online || asked {
		return online
	}
	n, ch := p.f.expect()
	defer p.f.forget(n)
	err := p.f.conn.PublishRequest(fabric.WhoSubject(p.id), fabric.ToGateway(p.f.life, p.id, fabric.KindAnswer, n), nil)
	if err == nil {
		limit := time.NewTimer(askLimit)
		defer limit.Stop()
		select {
		case <-changed:
		case <-ch:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	if err != nil || ctx.Err() != nil {
		p.mu.Lock()
		p.asked = false // it was not told
		p.mu.Unlock()
	}
	_, _, online = p.about()
	return online
}
