package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/strictjson"
	"github.com/corral-exec/corral/session"
)

// attach serves a session over a WebSocket: its terminal, or its pipes.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	off, err := queryInt(r, "offset", 0)
	if err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return corral.Errorf(corral.ErrInvalid, "use a WebSocket client with the subprotocol "+api.AttachProtocol, "the request is no WebSocket handshake")
	}
	stat, err := found.Log().Stat(r.Context())
	if err != nil {
		return err
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	conn, err := websocket.Accept(handshake{w.(*response)}, r, &websocket.AcceptOptions{
		Subprotocols: []string{api.AttachProtocol}, CompressionMode: websocket.CompressionDisabled,
		InsecureSkipVerify: true, // the origin was checked with everything else
	})
	if err != nil {
		return corral.Errorf(corral.ErrInvalid, "use a WebSocket client with the subprotocol "+api.AttachProtocol, "the WebSocket handshake is malformed: %w", err)
	}
	defer func() { _ = conn.CloseNow() }() // closed already, if all went well
	if conn.Subprotocol() != api.AttachProtocol {
		return conn.Close(websocket.StatusPolicyViolation, "speak the subprotocol "+api.AttachProtocol)
	}
	conn.SetReadLimit(api.MaxInput)
	if found.Status(ctx).TTY {
		defer found.AttachTerminal()()
	}
	a := &attachment{conn: conn, session: found, metrics: s.metrics, input: make(chan message, 16)}
	if err := a.run(ctx, &reader{log: found.Log(), pace: s.pace, ended: stat.Ended}, off); err != nil {
		s.log.Debug("an attached client is gone", "session", found.ID(), "error", err)
	}
	return nil
}

// handshake leaves answering what is no handshake to us.
type handshake struct{ *response }

func (h handshake) WriteHeader(status int) {
	if status < 400 {
		h.response.WriteHeader(status)
	}
}

func (h handshake) Write(p []byte) (int, error) { return len(p), nil }

// An attachment is one client at one session.
type attachment struct {
	conn    *websocket.Conn
	session *session.Session
	metrics *metrics
	input   chan message
}

type message struct {
	data []byte
	eof  bool
}

// run returns nil when the client has been told how the session ended, or that
// the gateway stops. The connection is closed then. It ends receive, too, which
// has no context: the end of one would cut the connection before anything can
// be said.
func (a *attachment) run(ctx context.Context, log *reader, off int64) error {
	g, ctx := errgroup.WithContext(ctx)
	over := errors.New("over")
	g.Go(func() error { return a.receive(ctx) })
	g.Go(func() error { return a.write(ctx) })
	g.Go(func() error {
		err := a.send(ctx, log, off)
		switch {
		case err == nil:
			err = a.conn.Close(websocket.StatusNormalClosure, "the session has ended")
		case errors.Is(context.Cause(ctx), errStopping):
			err = a.conn.Close(websocket.StatusServiceRestart, errStopping.Error())
		default:
			_ = a.conn.CloseNow() // the error that ends it is the one to tell
		}
		return cmp.Or(err, over)
	})
	if err := g.Wait(); !errors.Is(err, over) {
		return err
	}
	return nil
}

// send sends the log, and how the session ended.
func (a *attachment) send(ctx context.Context, log *reader, off int64) error {
	err := frames(ctx, log, frameRange{from: off, until: -1}, func(frame []byte) error {
		a.metrics.logBytes.Add(float64(len(frame)))
		return a.put(ctx, websocket.MessageBinary, frame)
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := a.session.Watch(ctx); err != nil {
		return err
	}
	status, err := json.Marshal(a.session.Status(ctx))
	if err != nil {
		return err
	}
	return a.control(ctx, api.Control{Type: api.ControlExit, Status: status})
}

func (a *attachment) control(ctx context.Context, c api.Control) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return a.put(ctx, websocket.MessageText, data)
}

func (a *attachment) put(ctx context.Context, t websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StallLimit)
	defer cancel()
	return a.conn.Write(ctx, t, data)
}

// receive takes messages from the client. Another goroutine writes input, so that a
// command that reads nothing can still be interrupted.
func (a *attachment) receive(ctx context.Context) error {
	for {
		t, data, err := a.conn.Read(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		m := message{data: data}
		if t == websocket.MessageText {
			if m.eof, err = a.command(ctx, data); err != nil {
				if err := a.complain(ctx, err); err != nil {
					return err
				}
				continue
			}
			if !m.eof {
				continue
			}
			m.data = nil
		}
		select {
		case a.input <- m:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *attachment) command(ctx context.Context, data []byte) (eof bool, err error) {
	var c api.Control
	if err := strictjson.Decode(data, &c); err != nil {
		return false, corral.Errorf(corral.ErrInvalid, "send input in binary messages", "a text message is malformed: %w", err)
	}
	switch c.Type {
	case api.ControlEOF:
		return true, nil
	case api.ControlResize:
		if c.Rows == 0 || c.Cols == 0 {
			return false, corral.Errorf(corral.ErrInvalid, "give rows and cols", "a terminal of %d rows and %d columns was asked for", c.Rows, c.Cols)
		}
		return false, a.session.Resize(ctx, corral.Size{Rows: c.Rows, Cols: c.Cols})
	case api.ControlSignal:
		sig, err := corral.ParseSignal(c.Signal)
		if err != nil {
			return false, err
		}
		return false, a.session.Signal(ctx, sig)
	}
	return false, corral.Errorf(corral.ErrInvalid, "use resize, signal or eof", "unknown type %q of a text message", c.Type)
}

// write hands input to the command, in the order in which it came.
func (a *attachment) write(ctx context.Context) error {
	for {
		select {
		case m := <-a.input:
			var err error
			if m.eof {
				err = a.session.CloseStdin(ctx)
			} else {
				var n int
				n, err = a.session.Write(ctx, m.data)
				a.metrics.stdinBytes.Add(float64(n))
			}
			if err != nil {
				if err := a.complain(ctx, err); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// complain tells the client what did not work, and is an error only if that
// cannot be done.
func (a *attachment) complain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, body := api.Encode(err)
	if err := a.control(ctx, api.Control{Type: api.ControlError, Error: &body.Error}); err != nil {
		return fmt.Errorf("cannot tell the client: %w", err)
	}
	return nil
}
