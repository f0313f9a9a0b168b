//go:build linux

package warden

import (
	"runtime"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// Most of a start is waiting: a new process waits for its turn, and the goroutine
// that makes it waits until it has executed its program, and holds a processor of the
// Go runtime's meanwhile. So where several starts arrive at once they are made beside
// each other, on more processors. One that is alone is made by the goroutine that
// received it: with few processors no other thread is woken, which is faster.

const (
	// beside bounds how many starts are made beside that of a connection's own goroutine.
	beside = 8
	// moreProcessors are there while starts are made beside each other, and for calm after.
	moreProcessors = 2
	calm           = time.Second
)

// begin answers wire.Start, beside what arrives after it if something has already. A
// second Start with an ID is answered with the first's process.
func (c *client) begin(m *wire.Message, fds []int) error {
	s := c.s
	p, f := s.claim(m)
	if p != nil || f != nil {
		closeFDs(fds)
		return c.started(m, p, f)
	}
	if s.opts.Processors == 0 || !wire.Waiting(c.conn.Conn) {
		p, f = s.start(c, m, fds)
		return c.started(m, p, f)
	}
	s.spread()
	s.beside <- struct{}{}
	c.starts.Go(func() {
		defer func() { <-s.beside }()
		p, f := s.start(c, m, fds)
		if err := c.started(m, p, f); err != nil {
			c.conn.Close() // as if the connection's own goroutine had failed
		}
	})
	return nil
}

// spread has the runtime use more processors for a while.
func (s *Supervisor) spread() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spreading != nil {
		s.spreading.Reset(calm)
		return
	}
	runtime.GOMAXPROCS(s.opts.Processors + moreProcessors)
	s.spreading = time.AfterFunc(calm, s.gather)
}

// gather ends spread. To change the number waits for every process that is being
// made, and so does all else: it is done when there is none.
func (s *Supervisor) gather() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spreading == nil {
		return
	}
	if len(s.making) > 0 {
		s.spreading.Reset(calm)
		return
	}
	s.spreading.Stop()
	s.spreading = nil
	runtime.GOMAXPROCS(s.opts.Processors)
	tell(s.worked) // so that the memory of the others is given back
}

// claim is the process with an ID, or has the caller alone make it, by start. It waits
// while another does.
func (s *Supervisor) claim(m *wire.Message) (*proc, *fail) {
	if f := checkStart(m); f != nil {
		return nil, f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitLocked(m.ID)
	p := s.procs[m.ID]
	switch {
	case p != nil:
		return p, nil
	case s.closing:
		return nil, failf(wire.CodeUnavailable, "the warden is closing")
	}
	s.making[m.ID] = struct{}{}
	return nil, nil
}

// made ends a claim.
func (s *Supervisor) made(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.making, id)
	s.begun.Broadcast()
}

// await waits while a process is being made: what is said of it comes after that.
func (s *Supervisor) await(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitLocked(id)
}

func (s *Supervisor) awaitLocked(id string) {
	for {
		if _, making := s.making[id]; !making {
			return
		}
		s.begun.Wait()
	}
}
