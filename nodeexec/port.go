package nodeexec

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// askPort is how often a node is asked whether it still has a connection. The question also
// tells it that the connection is still wanted.
const askPort = 15 * time.Second

// DialPort connects to what listens on a TCP port of the node, on 127.0.0.1 or else on
// ::1: in the sandbox of the context's agent if its commands run in one there, else on
// the machine, as far as its node.ports lets gateways. The connection has a method
// CloseWrite. It ends with this Fabric, with the node's program, and when the node is
// away for longer than Config.Patience.
//
// ErrInvalid: the node was chosen from a pool. ErrNotListening: nothing listens there.
// ErrDenied: the node does not allow it. errors.ErrUnsupported: its version of Corral cannot
// do it.
func (n *Node) DialPort(ctx context.Context, port int) (net.Conn, error) {
	if h, _, _ := n.peer.about(); !slices.Contains(h.Features, fabric.FeaturePorts) {
		return nil, corral.Errorf(errors.ErrUnsupported, "upgrade Corral on the node", "the ports of node %s cannot be reached", n.name)
	}
	if n.pool != "" {
		return nil, corral.Errorf(corral.ErrInvalid, "name one node of it", "%s is a pool, and a port is that of one node", n.pool)
	}
	p := n.newProcess(corral.NewID())
	body := fabric.Dial{Agent: corral.AgentFrom(ctx), Port: port}.Encode()
	// No question follows about what may be connected there.
	a, err := n.answered(ctx, request{op: fabric.OpDial, id: p.info.ID, body: body, once: true, patience: min(startPatience, n.f.patience)})
	if err == nil && (a.Info == nil || a.Info.ID != p.info.ID) {
		err = p.senseless()
	}
	if err != nil {
		return nil, err
	}
	return n.newPortConn(p, port)
}

// A portConn is a connection to a port of a node. What it reads is the output of a
// process that is none, and what it writes is that process's standard input.
type portConn struct {
	p    *process
	addr portAddr
	life context.Context
	end  context.CancelCauseFunc

	reading, writing sync.Mutex
	stream           *stream
	reads, writes    deadline
}

type portAddr string

func (portAddr) Network() string  { return "node" }
func (a portAddr) String() string { return string(a) }

func (n *Node) newPortConn(p *process, port int) (net.Conn, error) {
	c := &portConn{p: p, addr: portAddr(net.JoinHostPort(n.name, strconv.Itoa(port)))}
	c.life, c.end = context.WithCancelCause(n.f.ctx)
	c.reads.set(c.life, time.Time{})
	c.writes.set(c.life, time.Time{})
	c.stream = p.log.open(0, false, 0)
	c.stream.widest = fabric.PortWindow
	n.f.mu.Lock()
	over := n.f.ctx.Err() != nil
	if !over {
		n.f.owned.Go(c.keep)
	}
	n.f.mu.Unlock()
	if over {
		c.stream.Close()
		return nil, n.f.closedError()
	}
	return c, nil
}

// keep has the node keep the connection until it is closed here, and then removes it.
func (c *portConn) keep() {
	tick := time.NewTicker(askPort)
	defer tick.Stop()
	for c.life.Err() == nil {
		_, changed := c.p.peer.state()
		select {
		case <-c.life.Done():
		case <-changed: // the node may be another life, which has no connection
			c.ask()
		case <-tick.C:
			c.ask()
		}
	}
	c.stream.Close()
	boot, _ := c.p.peer.state()
	f := c.p.f
	if s, err := f.seal(c.p.peer, boot, fabric.OpRemove, c.p.ref(), nil); err == nil { // else it lapses, as if it does not arrive
		f.send(c.p.peer, s)
		f.forget(s.seq)
	}
}

func (c *portConn) ask() {
	if _, err := c.p.ask(c.life, fabric.OpStat, c.p.ref(), nil, c.p.f.patience); err != nil {
		c.end(err)
	}
}

// Read implements net.Conn.
func (c *portConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		ctx := c.reads.context()
		chunk, err := c.stream.read(ctx, b)
		switch {
		case err == nil:
			return len(chunk.Data), nil
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case c.again(ctx):
		default:
			return 0, c.failed("read", ctx, err)
		}
	}
}

// Write implements net.Conn.
func (c *portConn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n < len(b) {
		ctx := c.writes.context()
		k, err := c.p.Write(ctx, b[n:])
		n += k
		if err != nil && (errors.Is(err, corral.ErrLost) || !c.again(ctx)) { // what is lost may have arrived
			return n, c.failed("write", ctx, err)
		}
	}
	return n, nil
}

// again reports whether what was done with ctx ended for another deadline was set.
func (c *portConn) again(ctx context.Context) bool {
	return c.life.Err() == nil && errors.Is(ctx.Err(), context.Canceled)
}

func (c *portConn) failed(op string, ctx context.Context, err error) error {
	switch {
	case c.life.Err() != nil:
		err = context.Cause(c.life)
	case ctx.Err() != nil && !errors.Is(err, corral.ErrLost):
		err = os.ErrDeadlineExceeded
	}
	if errors.Is(err, corral.ErrNotFound) { // the node was started again, or was away
		err = corral.Errorf(corral.ErrLost, "connect again", "node %s does not have the connection any more", c.p.name)
	}
	return &net.OpError{Op: op, Net: c.addr.Network(), Addr: c.addr, Err: err}
}

// CloseWrite ends what is written: the program reads the end of it.
func (c *portConn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.p.CloseStdin(c.life); err != nil {
		return c.failed("close", c.life, err)
	}
	return nil
}

// Close implements net.Conn.
func (c *portConn) Close() error {
	if c.life.Err() != nil {
		return net.ErrClosed
	}
	c.end(net.ErrClosed)
	return nil
}

func (c *portConn) LocalAddr() net.Addr  { return c.addr }
func (c *portConn) RemoteAddr() net.Addr { return c.addr }

func (c *portConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *portConn) SetReadDeadline(t time.Time) error  { c.reads.set(c.life, t); return nil }
func (c *portConn) SetWriteDeadline(t time.Time) error { c.writes.set(c.life, t); return nil }

// A deadline is the context of what is done until then. To set another one cancels what
// is being done, which is then done again.
type deadline struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

func (d *deadline) set(life context.Context, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
	if t.IsZero() {
		d.ctx, d.cancel = context.WithCancel(life)
	} else {
		d.ctx, d.cancel = context.WithDeadline(life, t)
	}
}
