package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// A Terminal is a session that a person works with: output as it comes, and input.
// One goroutine may call Next while others call the other methods.
type Terminal struct {
	p *Process

	mu     sync.Mutex
	conn   *websocket.Conn // nil while the gateway is away
	closed bool

	next int64
}

// A Message is something that came from a session. One field is set.
type Message struct {
	Chunk corral.Chunk    // output
	Exit  *session.Status // the session has ended; nothing follows
	Err   error           // something that was sent did not work; the session goes on
}

// Attach attaches to a session, with its output from an offset on.
func (p *Process) Attach(ctx context.Context, offset int64) (*Terminal, error) {
	t := &Terminal{p: p, next: offset}
	for w := p.c.patience(); ; {
		err := t.dial(ctx)
		if _, no := errors.AsType[*noAnswer](err); !no {
			return t, err
		}
		if !p.c.reached.Load() || w.wait(ctx) != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, p.c.unreachable(err)
		}
	}
}

func (t *Terminal) dial(ctx context.Context) error {
	c := t.p.c
	u := c.base.JoinPath("v1", "sessions", t.p.info.ID, "attach")
	u.RawQuery = "offset=" + strconv.FormatInt(t.next, 10)
	header := http.Header{}
	c.identify(header)
	for name, value := range t.p.life() {
		header.Set(name, value)
	}
	conn, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: header, Subprotocols: []string{api.AttachProtocol},
	})
	if err != nil {
		if resp != nil && resp.StatusCode >= 400 {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, api.MaxBody)) // as much as there is
			if err := api.Decode(resp.StatusCode, body); resp.Header.Get("Retry-After") == "" {
				return err
			}
		}
		return &noAnswer{cause: err}
	}
	c.reached.Store(true)
	conn.SetReadLimit(api.HeaderLen + api.MaxFrame + 1<<16)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.CloseNow() // it is not wanted any more
		return errClosed
	}
	t.conn = conn
	return nil
}

var errClosed = corral.Errorf(corral.ErrInvalid, "attach again", "the terminal is closed")

// Next returns what comes next, across restarts of the gateway. The error is
// the context's, ErrUnavailable if the gateway was away for too long, or what
// the gateway has to say.
func (t *Terminal) Next(ctx context.Context) (Message, error) {
	for w := t.p.c.patience(); ; {
		conn, err := t.current()
		if err != nil {
			return Message{}, err
		}
		if conn == nil {
			err = t.dial(ctx)
		} else {
			var m Message
			if m, err = t.read(ctx, conn); err == nil {
				return m, nil
			}
		}
		switch no := (*noAnswer)(nil); {
		case ctx.Err() != nil:
			return Message{}, ctx.Err()
		case err == nil: // dialled
			continue
		case !errors.As(err, &no):
			return Message{}, err
		}
		t.drop(conn)
		if w.wait(ctx) != nil {
			if ctx.Err() != nil {
				return Message{}, ctx.Err()
			}
			return Message{}, t.p.c.unreachable(err)
		}
	}
}

func (t *Terminal) current() (*websocket.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	return t.conn, nil
}

func (t *Terminal) drop(conn *websocket.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == conn && conn != nil {
		_ = conn.CloseNow() // it is broken
		t.conn = nil
	}
}

// read returns what the next message is about; some are about nothing.
func (t *Terminal) read(ctx context.Context, conn *websocket.Conn) (Message, error) {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return Message{}, &noAnswer{cause: err}
		}
		if kind == websocket.MessageBinary {
			h, err := api.ParseHeader(data)
			if err == nil && (len(data) != api.HeaderLen+h.Length || !h.Last() && h.Offset < t.next) {
				err = api.ErrFrame
			}
			if err != nil {
				return Message{}, err
			}
			if h.Last() {
				continue
			}
			t.next = h.Offset + int64(h.Length)
			return Message{Chunk: corral.Chunk{Stream: h.Stream, Offset: h.Offset, Data: data[api.HeaderLen:]}}, nil
		}
		var c api.Control
		if err := json.Unmarshal(data, &c); err != nil {
			return Message{}, corral.Errorf(api.ErrInternal, "", "a message is not understood: %w", err)
		}
		switch {
		case c.Type == api.ControlError && c.Error != nil:
			return Message{Err: api.DecodeBody(0, *c.Error)}, nil
		case c.Type == api.ControlExit:
			st := new(session.Status)
			if err := json.Unmarshal(c.Status, st); err != nil {
				return Message{}, corral.Errorf(api.ErrInternal, "", "a message is not understood: %w", err)
			}
			return Message{Exit: st}, nil
		}
	}
}

// Write types data. That it could not be written to the session is a Message;
// the error is ErrUnavailable if the gateway is away: nothing was sent then, or
// ErrLost.
func (t *Terminal) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), api.MaxInput/2)
		if err := t.send(ctx, websocket.MessageBinary, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Resize sets the size of the terminal.
func (t *Terminal) Resize(ctx context.Context, size corral.Size) error {
	return t.control(ctx, api.Control{Type: api.ControlResize, Rows: size.Rows, Cols: size.Cols})
}

// Signal sends a signal to the whole tree.
func (t *Terminal) Signal(ctx context.Context, sig corral.Signal) error {
	return t.control(ctx, api.Control{Type: api.ControlSignal, Signal: strconv.Itoa(int(sig))})
}

// CloseStdin ends standard input.
func (t *Terminal) CloseStdin(ctx context.Context) error {
	return t.control(ctx, api.Control{Type: api.ControlEOF})
}

func (t *Terminal) control(ctx context.Context, c api.Control) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return t.send(ctx, websocket.MessageText, data)
}

func (t *Terminal) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	conn, err := t.current()
	if err != nil {
		return err
	}
	if conn == nil {
		return t.p.c.unreachable(errors.New("it is away"))
	}
	if err := conn.Write(ctx, kind, data); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return corral.Errorf(corral.ErrLost, "", "the connection to the gateway was cut while input was sent: %w", bare(err))
	}
	return nil
}

// Close detaches. The session goes on.
func (t *Terminal) Close() error {
	t.mu.Lock()
	conn := t.conn
	t.conn, t.closed = nil, true
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close(websocket.StatusNormalClosure, "") // it may be gone
	}
	return nil
}
