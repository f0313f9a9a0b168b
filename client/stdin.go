package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// cancelLimit is how long Write waits, after its context has ended, to be told
// how much was handed over.
const cancelLimit = 5 * time.Second

// Write sends data to standard input, or types it on the terminal. It returns
// exactly how much was handed over, also when ctx ends it, unless the
// connection was cut: then the error is ErrLost, and more may have been.
func (p *Process) Write(ctx context.Context, data []byte) (int, error) {
	if p.removed.Load() {
		return 0, p.gone(corral.ErrEnded)
	}
	total := 0
	for w := p.c.patience(); ; {
		n, err := p.write(ctx, data[total:])
		total += n
		// A gateway that stops says how far it came; the next goes on.
		if no, ok := errors.AsType[*noAnswer](err); !ok || !no.away {
			return total, err
		}
		if w.wait(ctx) != nil {
			if err := ctx.Err(); err != nil {
				return total, err
			}
			return total, err
		}
	}
}

// write is one request. It is not ended by ctx but asks the gateway to end it,
// since only the gateway knows how far it came.
func (p *Process) write(ctx context.Context, data []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	own, cut := context.WithCancel(p.c.life)
	defer cut()
	name := corral.NewID()
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		p.cancelWrite(own, name)
		cut()
	})
	var done api.Written
	req := p.call(http.MethodPost, "stdin")
	req.query, req.kind = url.Values{"write": {name}}, api.TypeBytes
	req.body, req.context = data, own
	if req.body == nil {
		req.body = []byte{}
	}
	err := p.c.try(ctx, req, func(resp *http.Response) error { return decode(resp, &done) })
	cut()
	if !stop() {
		<-over
	}
	if a, ok := errors.AsType[*answered](err); ok {
		_ = json.Unmarshal(a.body, &done) // without it, nothing was written
	}
	n := int(min(max(done.N, 0), int64(len(data))))
	no := (*noAnswer)(nil)
	switch {
	case err == nil && n < len(data):
		return n, corral.Errorf(corral.ErrLost, "", "the gateway took %d bytes of %d and does not say why", n, len(data))
	case err == nil:
		return n, nil
	case !errors.As(err, &no):
		if ctx.Err() != nil && errors.Is(err, corral.ErrUnavailable) {
			return n, ctx.Err()
		}
		return n, err
	case no.away:
		return n, err
	case no.sent:
		return n, corral.Errorf(corral.ErrLost, "look at the session before sending it again",
			"the connection to the gateway was cut while input was on its way to session %s, and it is not known how much of it arrived: %w", p.info.ID, no.cause)
	case ctx.Err() != nil:
		return n, ctx.Err()
	case !p.c.reached.Load():
		return n, p.c.unreachable(no.cause)
	}
	// No gateway listened, so nothing was sent.
	return n, &noAnswer{cause: p.c.unreachable(no.cause), away: true}
}

// cancelWrite asks until the write is over: the request may not have arrived.
func (p *Process) cancelWrite(own context.Context, name string) {
	ctx, cancel := context.WithTimeout(own, cancelLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = p.c.try(ctx, p.call(http.MethodDelete, "stdin", name), func(*http.Response) error { return nil })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// CloseStdin ends standard input.
func (p *Process) CloseStdin(ctx context.Context) error {
	if p.removed.Load() {
		return nil
	}
	req := p.call(http.MethodPost, "stdin")
	req.query, req.body, req.kind = url.Values{"eof": {"true"}}, []byte{}, api.TypeBytes
	return p.c.json(ctx, req, nil, nil)
}
