package fabric

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/turn"
)

// A Link is a program's connection to a message server. The library connects again
// after most failures, and gives up after some, such as an error of the server that it
// does not know. Then the Link makes a new connection, on which its listeners go on.
type Link struct {
	conn   atomic.Pointer[nats.Conn]
	status <-chan nats.Status // of conn; used by keep
	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu        sync.Mutex
	listeners map[*Listener]struct{}
	watchers  map[chan struct{}]struct{}
}

const (
	attemptLimit = 5 * time.Second
	firstWait    = 100 * time.Millisecond
	mostWait     = 2 * time.Second
	steady       = 30 * time.Second // a connection that lived for so long was a good one
)

// Connect connects by dial, which has to use the option that it gets, and does so again
// whenever the library has given up. It calls failed with the reason, and with the errors
// of these attempts. Close ends the Link; no attempt outlives ctx.
func Connect(ctx context.Context, dial func(nats.Option) (*nats.Conn, error), failed func(error)) (*Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &Link{cancel: cancel, listeners: map[*Listener]struct{}{}, watchers: map[chan struct{}]struct{}{}}
	option := nats.SetCustomDialer(dialer{ctx})
	conn, err := dial(option)
	if err == nil && !l.use(ctx, conn) {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	l.owned.Go(func() { l.keep(ctx, func() (*nats.Conn, error) { return dial(option) }, failed) })
	return l, nil
}

// dialer gives up when the Link ends.
type dialer struct{ ctx context.Context }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	n := net.Dialer{Timeout: attemptLimit}
	return n.DialContext(d.ctx, network, address)
}

// Backoff is the time before an attempt to connect; the first is 1. It is random, so
// that the nodes of a gateway do not come back at the same time.
func Backoff(attempt int) time.Duration {
	wait := mostWait
	if attempt < 5 {
		wait = firstWait << attempt
	}
	return wait/2 + rand.N(wait/2)
}

// Conn returns the connection. It may be closed, until the next one is made.
func (l *Link) Conn() *nats.Conn { return l.conn.Load() }

// Connected signals after each further connection of the Link or of the library, until
// stop. Messages on their way may be lost then.
func (l *Link) Connected() (signal <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[c] = struct{}{}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, c)
	}
}

// Close closes the connection, and makes no other.
func (l *Link) Close() {
	l.cancel() // before the library is asked: it waits for an attempt
	l.mu.Lock()
	conn := l.Conn()
	l.mu.Unlock()
	conn.Close()
	l.owned.Wait()
}

// use makes conn the connection, unless the Link has ended.
func (l *Link) use(ctx context.Context, conn *nats.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		conn.Close()
		return false
	}
	l.status = conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	l.conn.Store(conn)
	for e := range l.listeners {
		_ = e.subscribe(conn) // it fails if conn is closed already
	}
	return true
}

// keep makes a new connection whenever the library has closed the last one.
func (l *Link) keep(ctx context.Context, dial func() (*nats.Conn, error), failed func(error)) {
	for attempt, begun := 1, time.Now(); ; attempt++ {
		last := l.Conn()
		for !last.IsClosed() {
			if <-l.status == nats.CONNECTED {
				l.tell()
			}
		}
		if err := last.LastError(); err != nil && ctx.Err() == nil {
			failed(err)
		}
		if time.Since(begun) > steady {
			attempt = 1
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(Backoff(attempt)):
		}
		conn, err := dial()
		switch {
		case err == nil && !l.use(ctx, conn), ctx.Err() != nil:
			return
		case err != nil:
			failed(err)
		default:
			begun = time.Now()
			l.tell()
		}
	}
}

func (l *Link) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers {
		turn.Offer(w, struct{}{})
	}
}

// A Listener passes the messages of a subject to a function, one after the other.
type Listener struct {
	link      *Link
	subscribe func(*nats.Conn) error
	sub       *nats.Subscription // of the last connection; link.mu is held

	mu     sync.Mutex // held while a message is handled
	closed bool
}

// Listen begins to listen. The waiting messages are bounded in number and in bytes;
// further ones are dropped.
func (l *Link) Listen(subject string, messages, bytes int, handle nats.MsgHandler) (*Listener, error) {
	e := &Listener{link: l}
	e.subscribe = func(conn *nats.Conn) (err error) {
		e.sub, err = conn.Subscribe(subject, func(m *nats.Msg) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if !e.closed {
				handle(m)
			}
		})
		if err == nil {
			err = e.sub.SetPendingLimits(messages, bytes)
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := e.subscribe(l.Conn()); err != nil && !gone(err) {
		if e.sub != nil {
			err = errors.Join(err, e.sub.Unsubscribe())
		}
		return nil, err
	}
	l.listeners[e] = struct{}{}
	return e, nil
}

// Close stops listening, and returns when no message is being handled any more.
// Unsubscribe alone does not wait for that. The function must not call Close.
func (e *Listener) Close() error {
	var err error
	e.link.mu.Lock()
	delete(e.link.listeners, e)
	if e.sub != nil {
		err = e.sub.Unsubscribe()
	}
	e.link.mu.Unlock()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	if gone(err) {
		return nil
	}
	return err
}

// gone reports whether a subscription failed, or ended, with its connection.
func gone(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription)
}
