package fabric

import (
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// A Listener passes the messages of a subject to a function, one after the other.
type Listener struct {
	sub    *nats.Subscription
	mu     sync.Mutex // held while a message is handled
	closed bool
}

// Listen begins to listen. The waiting messages are bounded in number and in bytes;
// further ones are dropped.
func Listen(conn *nats.Conn, subject string, messages, bytes int, handle nats.MsgHandler) (*Listener, error) {
	l := &Listener{}
	sub, err := conn.Subscribe(subject, func(m *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			handle(m)
		}
	})
	if err != nil {
		return nil, err
	}
	l.sub = sub
	if err := sub.SetPendingLimits(messages, bytes); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close stops listening, and returns when no message is being handled any more.
// Unsubscribe alone does not wait for that. The function must not call Close.
func (l *Listener) Close() error {
	err := l.sub.Unsubscribe()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	// A subscription ends with its connection.
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return err
}
