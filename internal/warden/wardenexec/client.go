package wardenexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// ErrGone: the warden has ended, and with it everything it knew. It is what
// Options.Connect returns when connecting again is no use.
var ErrGone = errors.New("the warden has ended")

// Ended is ErrGone with how the place where the warden was has ended.
type Ended struct{ How string }

func (e *Ended) Error() string { return ErrGone.Error() + ": " + e.How }
func (e *Ended) Unwrap() error { return ErrGone }

// client is one connection, from Hello on.
type client struct {
	conn     wire.Conn
	items    map[string]*wire.Message // what the warden had at Hello; see keepItem
	warden   uint64                   // which one it is: since when it lives, in Unix ns; 0 if it does not say
	confines bool                     // it knows execution domains
	dials    bool                     // it connects to ports
	ends     bool                     // it ends by itself when it is told to
	oneWay   bool                     // it sends no descriptor

	// epoch is in every message on a byte stream: what an earlier connection
	// sent can arrive on the same stream after this one has begun, and must
	// not be taken for its. For the same reason no two connections use the
	// same request numbers.
	epoch string

	made time.Time

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan answer
	early   map[uint64]answer // what came ahead of an answer; see wire.Terminal
	ports   map[uint64]*portStream
	err     error // why the connection ended
	done    chan struct{}
}

type answer struct {
	m   *wire.Message
	fds []int

	// notPassed: the descriptors that the warden sent with it did not arrive.
	notPassed error
}

// errNotPassed is the error of an answer whose descriptors did not arrive.
func (a answer) errNotPassed() error {
	if a.notPassed == nil {
		return nil
	}
	closeFDs(a.fds)
	return corral.Errorf(corral.ErrUnavailable, "let some commands end, or raise the limit of open files of this program (ulimit -n)", "%w here", a.notPassed)
}

// helloTimeout bounds the greeting; the other side answers at once or is not a
// warden.
const helloTimeout = 10 * time.Second

// greet says Hello over a new connection, which it closes on error.
func greet(ctx context.Context, conn wire.Conn) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c := &client{conn: conn, items: map[string]*wire.Message{}, waiting: map[uint64]chan answer{}, early: map[uint64]answer{}, ports: map[uint64]*portStream{}, done: make(chan struct{}),
		oneWay: wire.OneWay(conn), epoch: corral.NewID(), next: 1 + rand.Uint64N(1<<62), made: time.Now()}
	err := c.hello()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if cause := ctx.Err(); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("cannot greet the warden: %w", err)
	}
	return c, nil
}

func (c *client) hello() error {
	epoch, req := c.epoch, c.next
	features := []string{wire.FeatureTerminalFirst, wire.FeaturePacked}
	if c.oneWay {
		features = append(features, wire.FeatureOneWay)
	}
	if err := c.send(context.Background(), &wire.Message{Type: wire.Hello, Req: req, Version: wire.Version,
		Features: features, StartedAt: uint64(time.Now().UnixNano())}); err != nil {
		return err
	}
	greeted, kept := false, 0
	for {
		m, fds, err := c.conn.Recv()
		closeFDs(fds)
		switch {
		case err != nil:
			return err
		case m.Type == wire.Hello && m.Epoch == epoch:
			greeted = true
			c.warden = m.StartedAt
			c.confines = slices.Contains(m.Features, wire.FeatureDomain)
			c.dials = slices.Contains(m.Features, wire.FeatureDial)
			c.ends = slices.Contains(m.Features, wire.FeatureEndAfter)
			wire.Pack(c.conn, slices.Contains(m.Features, wire.FeaturePacked))
		case !greeted && m.Type == wire.Error && m.Req == req:
			return errors.New(m.Text)
		case !greeted: // meant for the gateway that was connected before
		case m.Type == wire.Item:
			if err := c.keepItem(m, &kept); err != nil {
				return err
			}
		case m.Type == wire.OK && m.Req == req:
			return nil
		}
	}
}

// send sends a message. If ctx ends before, the error is wire.ErrUnsent or, if the
// message is still on its way, wire.ErrSending.
func (c *client) send(ctx context.Context, m *wire.Message, fds ...int) error {
	if !c.conn.PassesFiles() || m.Type == wire.Hello {
		m.Epoch = c.epoch
	}
	if s, ok := c.conn.(wire.ContextSender); ok {
		return s.SendContext(ctx, m, fds...)
	}
	return c.conn.Send(m, fds...)
}

// serve reads until the connection ends; event gets everything that is not an
// answer. It must not wait for anything of this connection.
func (c *client) serve(event func(*wire.Message)) {
	var err error
	for {
		var a answer
		a.m, a.fds, err = c.conn.Recv()
		if errors.Is(err, wire.ErrNotPassed) { // of this message alone
			a.notPassed, err = err, nil
		}
		if err != nil {
			break
		}
		if a.m.Req == 0 {
			closeFDs(a.fds)
			if !c.portMessage(a.m) {
				event(a.m)
			}
			continue
		}
		c.mu.Lock()
		req := a.m.Req
		w := c.waiting[req]
		if _, some := c.early[req]; a.m.Type == wire.Terminal && w != nil && !some {
			c.early[req] = a
			c.mu.Unlock()
			continue
		}
		if a.m.Type != wire.Terminal {
			a.fds = append(c.early[req].fds, a.fds...)
			a.notPassed = cmp.Or(c.early[req].notPassed, a.notPassed)
			c.drop(req)
		}
		c.mu.Unlock()
		if w == nil || a.m.Type == wire.Terminal {
			closeFDs(a.fds)
			continue
		}
		w <- a
	}
	c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("the connection to the warden ended: %w", err)
	for _, a := range c.early {
		closeFDs(a.fds)
	}
	c.early = nil
	for _, p := range c.ports {
		p.broken(c.err)
	}
	close(c.done)
}

// drop ends the wait for an answer; what came ahead of it is the caller's. mu is
// held.
func (c *client) drop(req uint64) {
	delete(c.waiting, req)
	delete(c.early, req)
}

// errSent marks an error after the request may have reached the warden.
var errSent = errors.New("no answer")

// call sends a request and waits for its answer. If that is an Error it is
// returned as one. An error that wraps errSent leaves open what happened: the
// connection ended, or ctx did. Then late is called with the answer when it
// comes, or with none when the connection has ended too.
func (c *client) call(ctx context.Context, m *wire.Message, late func(answer), fds ...int) (answer, error) {
	w := make(chan answer, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return answer{}, corral.Errorf(corral.ErrUnavailable, "", "cannot reach the warden: %w", c.err)
	}
	c.next++
	m.Req = c.next
	c.waiting[m.Req] = w
	c.mu.Unlock()
	if err := c.send(ctx, m, fds...); err != nil && !errors.Is(err, wire.ErrSending) {
		c.mu.Lock()
		closeFDs(c.early[m.Req].fds)
		c.drop(m.Req)
		c.mu.Unlock()
		return answer{}, corral.Errorf(corral.ErrUnavailable, "", "cannot reach the warden: %w", err)
	}
	select {
	case a := <-w:
		return a, asError(a)
	case <-c.done:
		select {
		case a := <-w: // came just before the end
			return a, asError(a)
		default:
			return answer{}, fmt.Errorf("%w: %w", errSent, c.err)
		}
	case <-ctx.Done():
		go func() {
			select {
			case a := <-w:
				if late != nil {
					late(a)
				} else {
					closeFDs(a.fds)
				}
			case <-c.done:
				if late != nil {
					late(answer{})
				}
			}
		}()
		return answer{}, fmt.Errorf("%w: %w", errSent, ctx.Err())
	}
}

// asError turns wire.Error into an error of the contract.
func asError(a answer) error {
	if a.m.Type != wire.Error {
		return nil
	}
	closeFDs(a.fds)
	kind := corral.ErrUnavailable
	hint := unavailableHint(a.m.Text)
	if a.m.Code != wire.CodeUnavailable {
		hint = ""
	}
	switch a.m.Code {
	case wire.CodeInvalid:
		kind = corral.ErrInvalid
	case wire.CodeNotFound:
		kind = corral.ErrNotFound
	case wire.CodeDir:
		kind, hint = corral.ErrDir, "create it, or give another working directory"
	case wire.CodeEnded:
		kind = corral.ErrEnded
	case wire.CodeUnsupported:
		kind = errors.ErrUnsupported
	case wire.CodeStdinClosed:
		kind, hint = corral.ErrStdinClosed, "start the command with stdin to write to it"
	case wire.CodeBusy:
		kind = corral.ErrRunning
	case wire.CodeRefused:
		kind, hint = corral.ErrNotListening, "start what is to listen there; it can listen on 127.0.0.1"
	case wire.CodeTimeout:
		hint = "the program that listens there is busy, or stopped: try again"
	}
	return corral.Errorf(kind, hint, "%s", printable(a.m.Text))
}

// unavailableHint is what to do when a warden cannot start or pass on a process. The
// warden has answered, so nothing that it runs in has to be started.
func unavailableHint(text string) string {
	for why, hint := range map[string]string{
		"resource temporarily unavailable": "too many processes run there already: end some (corral ps, process kill), or raise the limit (sandbox.pids; ulimit -u of the gateway's user)",
		"cannot allocate memory":           "there is no memory left there: end some commands (corral ps, process kill), or raise the limit (sandbox.memory)",
		"too many open files":              "too many files are open there: end some commands (corral ps, process kill)",
	} {
		if strings.Contains(text, why) {
			return hint
		}
	}
	return "try again; if it stays so, corral doctor says what is wrong"
}

// printable bounds a text from the other side, and makes it one line.
func printable(s string) string {
	b := []byte(s[:min(len(s), 4096)])
	for i, ch := range b {
		if ch < ' ' || ch == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}

func (c *client) close() {
	c.conn.Close()
}
