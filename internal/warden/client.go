//go:build linux

package warden

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// client is one connection.
type client struct {
	s    *Supervisor
	conn *outbox
	over chan struct{} // closed when it is no longer served

	starts sync.WaitGroup // those that are made beside what arrives after them

	greeting bool // it is being answered Hello; under Supervisor.mu

	terminalFirst bool // see wire.FeatureTerminalFirst
	oneWay        bool // see wire.FeatureOneWay
	cuts          int  // how often its connections to ports were cut; under Supervisor.mu

	// On a byte stream, whose turn it is: see stale.
	epoch string
	since uint64
}

// clockBack is by how much an operator may set the clock back without the next
// gateway being taken for an earlier one.
const clockBack = 15 * time.Second

// stale tells whether a message is of a gateway, or of a connection of it, that
// has been followed by another: engines can deliver what was sent over a broken
// connection after the first of what was sent over the next.
func (c *client) stale(m *wire.Message) bool {
	if c.conn.PassesFiles() {
		return false
	}
	if m.Type != wire.Hello {
		return m.Epoch != c.epoch
	}
	if m.StartedAt < c.since && c.since-m.StartedAt < uint64(clockBack) {
		return true
	}
	c.epoch, c.since = m.Epoch, m.StartedAt
	return false
}

// Serve answers one connection until it ends. Commands go on after it.
func (s *Supervisor) Serve(conn wire.Conn) error {
	c := &client{s: s, conn: newOutbox(conn), over: make(chan struct{})}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		conn.Close()
		return errors.New("the warden is closing")
	}
	s.clients[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	defer s.disconnect(c)
	for {
		c.conn.ready()
		m, fds, err := conn.Recv()
		if errors.Is(err, wire.ErrNotPassed) { // so nothing is done of it
			if err := c.answer(m, failf(wire.CodeUnavailable, "%v in the warden", err)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		if err := c.handle(m, fds); err != nil {
			return err
		}
	}
}

// disconnect lets go of a connection: its processes wait for the next.
func (s *Supervisor) disconnect(c *client) {
	c.starts.Wait()
	s.cutPorts(c)
	c.conn.end()
	s.detach(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	defer s.cutDials(c) // those that have begun since
	close(c.over)
	s.noteIdle()
}

// hearOut waits until everything that gateways said which are gone has been
// done. After that, what a new one does not find was never started. One that is
// being greeted has asked for nothing yet, and may be waiting here itself.
func (s *Supervisor) hearOut(c *client) {
	s.mu.Lock()
	c.greeting = true
	var gone []*client
	for other := range s.clients {
		if !other.greeting && other.conn.HungUp() {
			gone = append(gone, other)
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.greeting = false
	}()
	for _, other := range gone {
		<-other.over // all that it said is here, so this takes no waiting for others
	}
}

func (s *Supervisor) detach(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.owner == c {
			p.owner = nil
			if p.streams != nil {
				p.streams.detach(c.conn)
			}
		}
	}
}

// fail is an answer to a request that was refused.
type fail struct {
	code wire.Code
	text string
}

func (f *fail) Error() string { return f.text }

func failf(code wire.Code, format string, args ...any) *fail {
	return &fail{code, fmt.Sprintf(format, args...)}
}

// handle answers one message. An error ends the connection.
func (c *client) handle(m *wire.Message, fds []int) error {
	if m.Type != wire.Start && m.Type != wire.Keep {
		closeFDs(fds)
		fds = nil
	}
	if c.stale(m) {
		return nil
	}
	var f *fail
	switch m.Type {
	case wire.Hello, wire.Shutdown:
		c.starts.Wait() // for what was asked before
	case wire.Attach, wire.Signal, wire.Resize, wire.CloseStdin, wire.Keep, wire.Input, wire.OutputAck:
		c.s.await(m.ID)
	}
	switch m.Type {
	case wire.Hello:
		return c.hello(m)
	case wire.Start:
		return c.begin(m, fds)
	case wire.Attach:
		return c.attach(m)
	case wire.Signal:
		// Looking for the tree takes a while; others should not wait.
		c.s.wg.Add(1)
		go func() {
			defer c.s.wg.Done()
			_ = c.answer(m, c.s.signal(m.ID, int(m.Signal))) // a broken connection ends Recv too
		}()
		return nil
	case wire.Resize:
		f = c.s.resize(m.ID, m.Rows, m.Cols)
	case wire.CloseStdin:
		f = c.s.closeStdin(m.ID, m.Offset)
	case wire.Keep:
		f = c.s.keep(m.ID, fds)
	case wire.Forget:
		for _, id := range m.Args {
			c.s.forget(id)
		}
		return nil
	case wire.EndAfter:
		f = c.s.endAfter(m.Timeout)
	case wire.Dial:
		return c.dialPort(m)
	case wire.PortData, wire.PortAck, wire.PortClose:
		c.portMessage(m)
		return nil
	case wire.Shutdown:
		f = c.s.shutdown(c)
	case wire.Input:
		f = c.s.input(m)
		if f == nil {
			return nil // acknowledged when the process has taken it
		}
	case wire.OutputAck:
		c.s.outputAck(m.ID, int64(m.Offset))
		return nil
	default:
		f = failf(wire.CodeUnsupported, "message type %d is not known to this warden", m.Type)
	}
	return c.answer(m, f)
}

func (c *client) answer(m *wire.Message, f *fail) error {
	if f != nil {
		return c.conn.Send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: f.code, Text: f.text})
	}
	return c.conn.Send(&wire.Message{Type: wire.OK, Req: m.Req, ID: m.ID})
}

// features are optional parts of the protocol that this warden has.
var features = []string{"mark", wire.FeatureDomain, wire.FeatureDial, wire.FeatureEndAfter, wire.FeaturePacked}

func (c *client) hello(m *wire.Message) error {
	if m.Version != wire.Version {
		return c.answer(m, failf(wire.CodeVersion, "this warden speaks version %d of the protocol, not %d", wire.Version, m.Version))
	}
	if !c.conn.PassesFiles() {
		c.s.detach(c) // a new gateway speaks on the same stream
		c.s.cutPorts(c)
		c.conn.drop()
	}
	c.terminalFirst = slices.Contains(m.Features, wire.FeatureTerminalFirst)
	c.oneWay = slices.Contains(m.Features, wire.FeatureOneWay)
	wire.Pack(c.conn.Conn, slices.Contains(m.Features, wire.FeaturePacked))
	c.s.hearOut(c)
	err := c.conn.Send(&wire.Message{Type: wire.Hello, Req: m.Req, Version: wire.Version, Features: features,
		Epoch: m.Epoch, PID: uint64(c.s.self), StartedAt: c.s.Since()})
	if err != nil {
		return err
	}
	for _, item := range c.s.items() {
		item.Req = m.Req
		if err := c.conn.Send(item); err != nil {
			return err
		}
	}
	return c.answer(m, nil)
}

func (s *Supervisor) items() []*wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*wire.Message
	for _, p := range s.procs {
		items = append(items, p.item())
	}
	return items
}
