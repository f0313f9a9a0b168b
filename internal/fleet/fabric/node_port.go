package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// A PortDialer is an executor whose ports can be reached, as far as it lets agents of
// gateways. The connection has a method CloseWrite.
type PortDialer interface {
	DialPort(ctx context.Context, agent string, port int) (net.Conn, error)
}

// FeaturePorts is the feature of a node that takes OpDial.
const FeaturePorts = "ports"

// Bounds of connections to ports.
const (
	maxPorts     = 128
	dialLimit    = 10 * time.Second
	portLapse    = 45 * time.Second // nobody has asked about the connection
	portLapseCut = 10 * time.Second // the same, since the node is connected again
)

// PortWindow is how much a connection to a port holds that the gateway has not got yet,
// in bytes.
const PortWindow = 1 << 20

// Dial is the body of OpDial.
type Dial struct {
	Agent string `json:"agent,omitempty"` // the gateway's, on whose behalf it is
	Port  int    `json:"port"`
}

// Encode is the body of OpDial.
func (d Dial) Encode() []byte { return mustJSON(d) }

// ParseDial reads a Dial.
func ParseDial(b []byte) (Dial, error) {
	var d Dial
	if err := json.Unmarshal(b, &d); err != nil {
		return Dial{}, corral.Errorf(corral.ErrInvalid, "", "the request to connect is no JSON: %w", err)
	}
	if d.Port < 1 || d.Port > 65535 {
		return Dial{}, corral.Errorf(corral.ErrInvalid, "ports are numbered 1 to 65535", "no TCP port has the number %d", d.Port)
	}
	if d.Agent != "" {
		if err := corral.ValidateID(d.Agent); err != nil {
			return Dial{}, corral.Errorf(corral.ErrInvalid, corral.Hint(err), "the request to connect is of no agent: %w", err)
		}
	}
	return d, nil
}

// halfConn is a connection that can end what is written.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// A port is a connection to a port, as a process that a gateway knows by its ID: what
// the program at the port sends is its log, and what it gets is its standard input. It
// is no process of the executor. It is closed when it is removed, when no gateway has
// asked about it for portLapse, and when Serve ends.
//
// Of its log there is what the gateway does not have yet, PortWindow at most.
type port struct {
	id    string
	conn  halfConn
	lapse *time.Timer

	mu      sync.Mutex
	changed *sync.Cond
	base    int64  // offset of held
	held    []byte // came from the program
	err     error  // what comes after held; io.EOF: the program has ended what it sends
	shut    bool   // the program was told the end of what it gets
	closed  bool
}

// dial answers OpDial.
func (n *node) dial(e *Envelope) Answer {
	fail := func(err error) Answer { return Answer{Error: EncodeError(err)} }
	d, err := ParseDial(e.Body)
	if err != nil {
		return fail(err)
	}
	x, ok := n.exec.(PortDialer)
	if !ok {
		return fail(corral.Errorf(errors.ErrUnsupported, "", "the ports of node %s cannot be reached", n.id))
	}
	if err := n.portRoom(e.ID); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(n.ctx, dialLimit)
	defer cancel()
	conn, err := x.DialPort(ctx, d.Agent, d.Port)
	if err != nil {
		return fail(err)
	}
	half, ok := conn.(halfConn)
	if !ok {
		return fail(errors.Join(errors.New("the connection cannot be half-closed"), conn.Close()))
	}
	p := &port{id: e.ID, conn: half}
	p.changed = sync.NewCond(&p.mu)
	p.mu.Lock()
	p.lapse = time.AfterFunc(portLapse, p.close)
	p.mu.Unlock()
	n.mu.Lock()
	err = n.portRoomLocked(e.ID)
	if err == nil {
		n.ports[e.ID] = p
		n.owned.Go(func() {
			p.pump()
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.ports, p.id)
		})
	}
	n.mu.Unlock()
	if err != nil {
		p.close()
		return fail(err)
	}
	n.log.Info("connected to a port for the gateway", "agent", d.Agent, "port", d.Port, "connection", e.ID, "gateway", e.Key)
	return answerInfo(p)
}

func (n *node) portRoom(id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.portRoomLocked(id)
}

func (n *node) portRoomLocked(id string) error {
	switch {
	case n.closed:
		return corral.Errorf(corral.ErrUnavailable, "", "node %s ends", n.id)
	case n.ports[id] != nil:
		return corral.Errorf(corral.ErrConflict, "use a new id", "node %s has a connection %s", n.id, id)
	case len(n.ports) >= maxPorts:
		return corral.Errorf(corral.ErrUnavailable, "close some", "node %s has %d connections to ports", n.id, maxPorts)
	}
	return nil
}

// portOf is the connection with an ID, if there is one. It counts as asked about.
func (n *node) portOf(id string) *port {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.portOfLocked(id)
}

func (n *node) portOfLocked(id string) *port {
	p := n.ports[id]
	if p != nil {
		p.lapse.Reset(portLapse)
	}
	return p
}

// doubtPorts has connections end soon about which no gateway asks any more: the last
// one may be gone.
func (n *node) doubtPorts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.ports {
		p.lapse.Reset(portLapseCut)
	}
}

func (n *node) closePorts() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.ports {
		p.close()
	}
}

// pump takes what the program sends, until the connection is closed.
func (p *port) pump() {
	buf := make([]byte, 64<<10)
	for p.room() {
		n, err := p.conn.Read(buf)
		p.mu.Lock()
		p.held = append(p.held, buf[:n]...)
		if err != nil {
			p.err = err
		}
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// room waits until more may be read; false: the connection is closed.
func (p *port) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && (p.err != nil || len(p.held) >= PortWindow) {
		p.changed.Wait()
	}
	return !p.closed
}

// got forgets what a gateway has.
func (p *port) got(before int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := min(before-p.base, int64(len(p.held))); k > 0 {
		p.held = p.held[k:]
		p.base += k
		p.changed.Broadcast()
	}
}

func (p *port) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapse.Stop()
	if p.closed {
		return
	}
	p.closed = true
	p.changed.Broadcast()
	_ = p.conn.Close() // nothing more is expected of it
}

func (p *port) gone() error {
	return corral.Errorf(corral.ErrLost, "connect again", "the connection %s is closed", p.id)
}

// Read implements corral.Log.
func (p *port) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for off == p.base+int64(len(p.held)) && p.err == nil && !p.closed && ctx.Err() == nil {
		p.changed.Wait()
	}
	at := off - p.base
	switch {
	case ctx.Err() != nil:
		return corral.Chunk{}, ctx.Err()
	case p.closed:
		return corral.Chunk{}, p.gone()
	case at < 0 || at > int64(len(p.held)):
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "", "the connection %s has bytes %d to %d, and not %d", p.id, p.base, p.base+int64(len(p.held)), off)
	case at < int64(len(p.held)):
		return corral.Chunk{Offset: off, Stream: corral.Stdout, Data: buf[:copy(buf, p.held[at:])]}, nil
	case errors.Is(p.err, io.EOF):
		return corral.Chunk{}, io.EOF
	}
	return corral.Chunk{}, corral.Errorf(corral.ErrLost, "look at what listens there", "the connection %s was cut: %w", p.id, p.err)
}

// Stat implements corral.Log.
func (p *port) Stat(context.Context) (corral.LogStat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return corral.LogStat{}, p.gone()
	}
	return corral.LogStat{Size: p.base + int64(len(p.held)), Ended: p.err != nil}, nil
}

func (p *port) Log() corral.Log { return p }

func (p *port) Info() corral.Info { return corral.Info{ID: p.id} }

// Write implements corral.Process.
func (p *port) Write(ctx context.Context, data []byte) (int, error) {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.conn.SetWriteDeadline(time.Unix(1, 0)) // closed: Write has ended
		close(stopped)
	})
	n, err := p.conn.Write(data)
	if !stop() {
		<-stopped
		_ = p.conn.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return n, ctx.Err()
	}
	return n, corral.Errorf(corral.ErrLost, "look at what listens there", "the connection %s was cut: %w", p.id, err)
}

// CloseStdin implements corral.Process.
func (p *port) CloseStdin(context.Context) error {
	p.mu.Lock()
	done := p.shut || p.closed
	p.shut = true
	p.mu.Unlock()
	if done {
		return nil
	}
	_ = p.conn.CloseWrite() // the program may have closed all of it, which is read
	return nil
}

// Remove implements corral.Process: it closes the connection.
func (p *port) Remove(context.Context) error {
	p.close()
	return nil
}

func (p *port) unsupported(what string) error {
	return fmt.Errorf("a connection to a port %s: %w", what, errors.ErrUnsupported)
}

func (p *port) Wait(context.Context) (corral.Exit, error) {
	return corral.Exit{}, p.unsupported("does not end as a process does")
}
func (p *port) Signal(context.Context, corral.Signal) error { return p.unsupported("takes no signals") }
func (p *port) Resize(context.Context, corral.Size) error   { return p.unsupported("has no terminal") }
