package wardenexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

// Connecting again is tried after 5 ms, then up to every 2 s. A connection that
// lasted no longer than steady was of no use: the next one waits as if it had not
// been made. Variables for tests.
var (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 2 * time.Second
	steady     = 2 * time.Second
)

// brokeLocked notes that a connection ended. mu is held.
func (e *Executor) brokeLocked(c *client) {
	now := time.Now()
	if now.Sub(c.made) > steady {
		e.broke, e.notBefore = 0, time.Time{}
		return
	}
	e.notBefore = now.Add(min(firstDelay<<min(e.broke, 20), lastDelay))
	e.broke++
}

// rest waits until a connection may be made again.
func (e *Executor) rest(ctx context.Context) error {
	e.mu.Lock()
	wait, broke := time.Until(e.notBefore), e.broke
	e.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-e.life.Done():
		return errClosed
	case <-ctx.Done():
		return corral.Errorf(corral.ErrUnavailable, "see the warden's log", "the connection to the warden broke %d times in a row, and is made again in %v: %w",
			broke, wait.Round(time.Millisecond), ctx.Err())
	}
}

// rejoin has processes go on over a new connection. Those for which that fails are
// tried again, less and less often, as long as there is the connection.
func (e *Executor) rejoin(c *client, procs []*process) {
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		var failed []*process
		var last error
		for _, p := range procs {
			if err := p.reconnect(c); err != nil {
				failed, last = append(failed, p), err
			}
		}
		if len(failed) == 0 {
			return
		}
		select {
		case <-c.done: // then the next connection does it
			return
		case <-e.life.Done():
			return
		default:
		}
		e.log.Error("cannot attach to processes again; trying again", "processes", len(failed), "first", failed[0].id, "error", last, "delay", delay)
		select {
		case <-time.After(delay):
		case <-c.done:
			return
		case <-e.life.Done():
			return
		}
		procs = failed
	}
}

// disconnected connects again if a process waits for that.
func (e *Executor) disconnected(c *client) {
	e.mu.Lock()
	if e.client == c {
		e.client = nil
	}
	e.brokeLocked(c)
	live := 0
	for _, p := range e.procs {
		if p.running() {
			live++
		}
	}
	if e.closed || live == 0 {
		e.mu.Unlock()
		return
	}
	e.wg.Add(1)
	e.mu.Unlock()
	e.log.Warn("lost the connection to the warden; connecting again", "processes", live, "error", c.err)
	go e.reconnect()
}

func (e *Executor) reconnect() {
	defer e.wg.Done()
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		_, err := e.connection(e.life, false)
		switch {
		case err == nil || e.life.Err() != nil:
			return
		case errors.Is(err, ErrGone):
			e.lose(err)
			return
		}
		e.log.Warn("cannot reach the warden; trying again", "error", err, "delay", delay)
		select {
		case <-time.After(delay):
		case <-e.life.Done():
			return
		}
	}
}

// lose gives up the processes of wardens that are gone. There may be the next already, with
// processes of its own.
func (e *Executor) lose(cause error) {
	for _, p := range e.all() {
		if !p.settledYet() || p.client == nil {
			continue
		}
		select {
		case <-p.client.done:
			p.lost(cause)
		default:
		}
	}
}

// catchUp connects a process again whose connection ended before it was settled:
// nothing else does that.
func (e *Executor) catchUp(p *process) {
	c := p.client
	if c == nil || !p.running() {
		return
	}
	e.mu.Lock()
	if e.closed || e.client == c {
		e.mu.Unlock()
		return
	}
	e.wg.Add(2) // reconnect ends one of them
	e.mu.Unlock()
	go func() {
		defer e.wg.Done()
		e.reconnect()
		if again := e.current(); again != nil {
			e.rejoin(again, []*process{p})
		}
	}()
}

// againTimeout bounds how long a start whose connection broke tries to find out
// what became of it.
const againTimeout = 5 * time.Second

// sameWarden returns a new connection to the warden that c was to, over which a
// start can be repeated: the same warden starts no ID twice. It is nil if that
// is gone, or cannot be reached, or the process has ended meanwhile under
// another gateway.
func (e *Executor) sameWarden(ctx context.Context, c *client, id string) *client {
	ctx, cancel := context.WithTimeout(ctx, againTimeout)
	defer cancel()
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		again, err := e.connection(ctx, false)
		if err == nil {
			_, rec, err := e.records.find(id)
			if again.warden != c.warden || c.warden == 0 || rec != nil || err != nil {
				return nil
			}
			return again
		}
		if errors.Is(err, ErrGone) {
			return nil
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		case <-e.life.Done():
			return nil
		}
	}
}
