package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/streams"
)

// log reads a session's log. Who reads on where the last Read ended reads from
// one answer that goes on; who reads here and there gets an answer for each
// Read.
type log struct {
	p *Process

	idle streams.Idle[*stream]
}

// A stream is an answer that was read in part.
type stream struct {
	frames *api.FrameReader
	body   io.Closer
	cancel context.CancelFunc
	single bool // has one frame
}

// Close lets go of an answer that is not wanted any more.
func (s *stream) Close() {
	s.cancel()
	_ = s.body.Close() // its error would be that
}

// Stat says how long the log is now.
func (l *log) Stat(ctx context.Context) (corral.LogStat, error) {
	return ask[corral.LogStat](ctx, l.p.c, l.p.call(http.MethodGet, "log", "stat"), nil)
}

// Read implements corral.Log.
func (l *log) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	switch {
	case off < 0:
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "offsets count from 0", "cannot read a log from offset %d", off)
	case len(buf) == 0:
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "give a buffer of at least one byte", "cannot read a log into an empty buffer")
	case ctx.Err() != nil:
		return corral.Chunk{Offset: off}, ctx.Err()
	}
	s, sequential, err := l.idle.Take(off)
	if err != nil {
		return corral.Chunk{Offset: off}, err
	}
	for w := l.p.c.patience(); ; {
		began := time.Now()
		c, err := l.read(ctx, s, off, buf, sequential)
		if _, no := errors.AsType[*noAnswer](err); !no {
			return c, err
		}
		s = nil
		if time.Since(began) > lastPause { // the gateway was there: the command may be quiet for long
			w = l.p.c.patience()
		}
		if w.wait(ctx) == nil {
			continue
		}
		if ctx.Err() != nil {
			return corral.Chunk{Offset: off}, ctx.Err()
		}
		return corral.Chunk{Offset: off}, l.p.c.unreachable(err)
	}
}

// read reads from s, or from a new answer if it is nil. The error is a noAnswer
// if it was cut.
func (l *log) read(ctx context.Context, s *stream, off int64, buf []byte, sequential bool) (corral.Chunk, error) {
	if s == nil {
		var err error
		if s, err = l.open(ctx, off, len(buf), sequential); err != nil {
			return corral.Chunk{Offset: off}, err
		}
	}
	stop := context.AfterFunc(ctx, s.cancel)
	c, err := s.frames.Chunk(buf)
	if err == nil && c.Offset < off {
		err = fmt.Errorf("%w: output of offset %d, and %d was asked for", api.ErrFrame, c.Offset, off)
	}
	over := err == nil && s.single && s.frames.Rest() == 0
	if over { // one more frame, after which the connection can be used again
		if h, e := s.frames.Next(); e == nil && h.Last() {
			s.frames.AtEnd()
		}
	}
	if !stop() { // s is broken, but what was read was read
		s.Close()
		if err == nil {
			return c, nil
		}
		return corral.Chunk{Offset: off}, ctx.Err()
	}
	if err == nil && !over {
		l.idle.Keep(s, c.Next())
		return c, nil
	}
	s.Close()
	switch {
	case err == nil:
		l.idle.Passed(c.Next())
		return c, nil
	case errors.Is(err, io.EOF):
		l.idle.End(off)
		return corral.Chunk{Offset: off}, io.EOF
	case errors.Is(err, api.ErrFrame):
		return corral.Chunk{Offset: off}, err
	}
	return corral.Chunk{Offset: off}, &noAnswer{cause: err}
}

// open asks for the log from an offset on. The answer outlives ctx.
func (l *log) open(ctx context.Context, off int64, most int, sequential bool) (*stream, error) {
	own, cancel := context.WithCancel(l.p.c.life)
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	req := l.p.call(http.MethodGet, "log")
	req.query = url.Values{"follow": {"true"}, "offset": {strconv.FormatInt(off, 10)}}
	if !sequential {
		req.query.Set("limit", strconv.Itoa(min(most, api.MaxFrame)))
	}
	req.context = own
	s := &stream{cancel: cancel, single: !sequential}
	err := l.p.c.do(ctx, req, func(resp *http.Response) error {
		s.frames, s.body = api.NewFrameReader(resp.Body), resp.Body
		resp.Body = http.NoBody // what do closes; ours stays
		return nil
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}
