package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// largeBuffers have room for the largest frame. Who waits for output waits with
// a small one: there may be hundreds.
var largeBuffers = sync.Pool{New: func() any { return new([api.HeaderLen + api.MaxFrame]byte) }}

const smallFrame = 4 << 10

// A logQuery is what a request asks of a log.
type logQuery struct {
	kind   string // media type of the answer
	from   int64
	limit  int64 // bytes of output; 0: none
	follow bool
}

// parseLogQuery reads the parameters of GET log. A call that starts a command takes only
// the offset.
func parseLogQuery(r *http.Request, usual string) (q logQuery, err error) {
	q.kind = accepted(r, usual)
	if q.from, err = queryInt(r, "offset", 0); err != nil {
		return q, err
	}
	if q.kind != usual {
		if q.from, err = lastEventID(r, q.from); err != nil {
			return q, err
		}
	}
	if q.limit, err = queryInt(r, "limit", 0); err != nil {
		return q, err
	}
	q.follow, err = queryBool(r, "follow")
	return q, err
}

// in is the range of a log that is asked for.
func (q logQuery) in(stat corral.LogStat) frameRange {
	rng := frameRange{from: q.from, until: -1, limit: q.limit, once: q.follow && q.limit > 0}
	if !q.follow && !stat.Ended {
		rng.until = max(q.from, stat.Size)
	}
	return rng
}

// readLog sends frames of the log, or events: all that is there, up to limit bytes if
// there is one; or with follow all that comes, up to the first frame if there is a
// limit: that is one corral.Log.Read.
func (s *Server) readLog(w http.ResponseWriter, r *http.Request, found *session.Session) error {
	q, err := parseLogQuery(r, api.TypeLog)
	if err != nil {
		return err
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	stat, err := found.Log().Stat(ctx)
	if err != nil {
		return err
	}
	log := &reader{log: found.Log(), pace: s.pace, ended: stat.Ended}
	if q.kind != api.TypeLog {
		events := s.eventStream(w, q.kind, found, q.from)
		if err := events.head(http.StatusOK); err != nil {
			return err
		}
		return events.run(ctx, log, q.in(stat))
	}
	w.Header().Set("Content-Type", api.TypeLog)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return err
	}
	return frames(ctx, log, q.in(stat), func(frame []byte) error {
		s.metrics.logBytes.Add(float64(len(frame)))
		if _, err := w.Write(frame); err != nil {
			return err
		}
		return rc.Flush()
	})
}

// frameRange is what of a log to send.
type frameRange struct {
	from  int64
	until int64 // offset; -1: to the end of the log
	limit int64 // bytes of output; 0: none
	once  bool  // one frame
}

// frames sends the output that a log has in a range, and a last frame. It sends that
// also when the gateway drains: the reader may come back.
func frames(ctx context.Context, log *reader, rng frameRange, send func([]byte) error) error {
	small := make([]byte, api.HeaderLen+smallFrame)
	last := api.Header{Offset: rng.from}
	for more := false; ; {
		buf, free := small, func() {}
		if more { // than fits into the small one
			large := largeBuffers.Get().(*[api.HeaderLen + api.MaxFrame]byte)
			buf, free = large[:], func() { largeBuffers.Put(large) }
		}
		c, err := readFrame(ctx, log, rng, buf)
		if err == nil && len(c.Data) > 0 {
			api.Header{Stream: c.Stream, Offset: c.Offset, Length: len(c.Data)}.Put(buf)
			if err = send(buf[:api.HeaderLen+len(c.Data)]); err == nil {
				last.Offset = c.Next()
			}
		}
		free()
		switch {
		case errors.Is(err, io.EOF):
			last.Stream = api.StreamEnd
		case err == nil && len(c.Data) == 0, errors.Is(context.Cause(ctx), errStopping):
			last.Stream = api.StreamPause
		case err != nil:
			return err
		default:
			more = len(c.Data) >= smallFrame
			rng.from = c.Next()
			if rng.limit > 0 {
				if rng.limit -= int64(len(c.Data)); rng.limit == 0 || rng.once {
					rng.until = rng.from
				}
			}
			continue
		}
		last.Put(small)
		return send(small[:api.HeaderLen])
	}
}

// readFrame reads one frame's bytes into buf after the header. No bytes and no
// error: there are none in the range.
func readFrame(ctx context.Context, log *reader, rng frameRange, buf []byte) (corral.Chunk, error) {
	room := int64(len(buf) - api.HeaderLen)
	if rng.limit > 0 {
		room = min(room, rng.limit)
	}
	if rng.until >= 0 {
		room = min(room, rng.until-rng.from)
	}
	if room <= 0 {
		return corral.Chunk{Offset: rng.from}, nil
	}
	c, err := log.Read(ctx, rng.from, buf[api.HeaderLen:api.HeaderLen+room])
	if err == nil && rng.until >= 0 && c.Offset >= rng.until { // beyond a gap
		return corral.Chunk{Offset: rng.from}, nil
	}
	return c, err
}
