package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/api"
)

// log reads a session's log. Who reads on where the last Read ended reads from
// one answer that goes on; who reads here and there gets an answer for each
// Read.
type log struct {
	p *Process

	mu    sync.Mutex
	idle  []*stream // answers that nobody reads now, the oldest first
	next  int64     // where the last Read ended
	ended int64     // the least offset of which it is known that the log has ended before it; -1: none
}

const (
	idleStreams = 4
	// idleLimit is for how long an answer is kept that nobody reads on. It
	// costs the gateway a connection, and a place among its followers.
	idleLimit = 2 * time.Second
)

// A stream is an answer of which some was read.
type stream struct {
	frames *api.FrameReader
	body   io.Closer
	cancel context.CancelFunc
	next   int64
	single bool // has one frame
	expiry *time.Timer
}

func (l *log) init(p *Process) { l.p, l.ended = p, -1 }

// Stat says how long the log is now.
func (l *log) Stat(ctx context.Context) (corral.LogStat, error) {
	var st corral.LogStat
	err := l.p.c.json(ctx, l.p.call(http.MethodGet, "log", "stat"), nil, &st)
	return st, err
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
	s, sequential, ended := l.take(off)
	if ended {
		return corral.Chunk{Offset: off}, io.EOF
	}
	for w := l.p.c.patience(); ; {
		c, err := l.read(ctx, s, off, buf, sequential)
		if no := (*noAnswer)(nil); !errors.As(err, &no) {
			return c, err
		}
		s = nil
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
	over := err == nil && s.single && s.frames.Rest() == 0
	if over { // one more frame, after which the connection can be used again
		if h, e := s.frames.Next(); e == nil && h.Last() {
			s.frames.AtEnd()
		}
	}
	if !stop() { // s is broken, but what was read was read
		l.close(s)
		if err == nil {
			return c, nil
		}
		return corral.Chunk{Offset: off}, ctx.Err()
	}
	switch {
	case err == nil:
		l.put(s, c.Next(), over)
		return c, nil
	case errors.Is(err, io.EOF):
		l.close(s)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended < 0 || off < l.ended {
			l.ended = off
		}
		return corral.Chunk{Offset: off}, io.EOF
	case errors.Is(err, api.ErrFrame):
		l.close(s)
		return corral.Chunk{Offset: off}, err
	}
	l.close(s)
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
	s := &stream{cancel: cancel, next: off, single: !sequential}
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

// take returns an answer that goes on at off, if there is one; and otherwise
// whether it is worth asking for one that goes on.
func (l *log) take(off int64) (s *stream, sequential, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended >= 0 && off >= l.ended {
		return nil, false, true
	}
	i := slices.IndexFunc(l.idle, func(s *stream) bool { return s.next == off })
	if i < 0 {
		return nil, off == 0 || off == l.next, false
	}
	s = l.idle[i]
	l.idle = slices.Delete(l.idle, i, i+1)
	s.expiry.Stop()
	return s, true, false
}

// put keeps s for the next Read, unless it is over.
func (l *log) put(s *stream, next int64, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, s.next = next, next
	if over {
		l.close(s)
		return
	}
	l.idle = append(l.idle, s)
	s.expiry = time.AfterFunc(idleLimit, func() { l.expire(s) })
	if len(l.idle) > idleStreams {
		old := l.idle[0]
		l.idle = l.idle[1:]
		old.expiry.Stop()
		l.close(old)
	}
}

func (l *log) expire(s *stream) {
	l.mu.Lock()
	i := slices.Index(l.idle, s)
	if i >= 0 {
		l.idle = slices.Delete(l.idle, i, i+1)
	}
	l.mu.Unlock()
	if i >= 0 {
		l.close(s)
	}
}

func (l *log) close(s *stream) {
	s.cancel()
	_ = s.body.Close() // an answer that is not wanted any more
}
