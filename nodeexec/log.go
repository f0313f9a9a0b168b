package nodeexec

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fabric"
)

// log reads a process's log on its node. Who reads on where the last Read
// ended reads from one stream that the node keeps filled; who reads here and
// there asks each time.
type log struct {
	p *process

	mu    sync.Mutex
	idle  []*stream // streams that nobody reads now, the oldest first
	next  int64     // where the last Read ended
	ended int64     // the least offset of which it is known that the log has ended before it; -1: none

	streams atomic.Int32 // that go on

	final atomic.Pointer[corral.LogStat] // what it holds, when it has ended; nil: that has not been told
}

const (
	idleStreams = 4
	// idleLimit is for how long a stream is kept that nobody reads on.
	idleLimit = 2 * time.Second
)

func (l *log) init(p *process) { l.p, l.ended = p, -1 }

// Stat implements corral.Log.
func (l *log) Stat(ctx context.Context) (corral.LogStat, error) {
	if err := ctx.Err(); err != nil {
		return corral.LogStat{}, err
	}
	if st := l.final.Load(); st != nil {
		return *st, nil
	}
	a, err := l.p.ask(ctx, fabric.OpStat, l.p.info.ID, nil, l.p.f.patience)
	if err == nil && a.Stat == nil {
		err = l.p.senseless()
	}
	if err != nil {
		return corral.LogStat{}, err
	}
	return *a.Stat, nil
}

// Read implements corral.Log.
func (l *log) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	switch {
	case off < 0 || off > fabric.MaxOffset:
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "offsets are bytes from the beginning", "cannot read a log from offset %d", off)
	case len(buf) == 0:
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "give a buffer of at least one byte", "cannot read a log into an empty buffer")
	case ctx.Err() != nil:
		return corral.Chunk{Offset: off}, ctx.Err()
	}
	s, sequential, ended := l.take(off)
	if ended {
		return corral.Chunk{Offset: off}, io.EOF
	}
	if s == nil {
		s = l.open(off, !sequential, len(buf))
	}
	c, err := s.read(ctx, buf)
	switch {
	case err == nil:
		l.put(s, c.Next())
	case errors.Is(err, io.EOF):
		s.close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended < 0 || off < l.ended {
			l.ended = off
		}
		return corral.Chunk{Offset: off}, io.EOF
	case ctx.Err() != nil && !s.single:
		l.put(s, off)
		return corral.Chunk{Offset: off}, ctx.Err()
	default:
		s.close()
		return corral.Chunk{Offset: off}, err
	}
	return c, nil
}

// take returns a stream that goes on at off, if there is one; and otherwise
// whether it is worth opening one that goes on.
func (l *log) take(off int64) (s *stream, sequential, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended >= 0 && off >= l.ended {
		return nil, false, true
	}
	i := slices.IndexFunc(l.idle, func(s *stream) bool { return s.at == off })
	if i < 0 {
		return nil, off == 0 || off == l.next, false
	}
	s = l.idle[i]
	l.idle = slices.Delete(l.idle, i, i+1)
	s.expiry.Stop()
	return s, true, false
}

// put keeps s for the next Read, unless it is over.
func (l *log) put(s *stream, next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, s.at = next, next
	if s.single {
		s.close()
		return
	}
	l.idle = append(l.idle, s)
	s.expiry = time.AfterFunc(idleLimit, func() { l.expire(s) })
	if len(l.idle) > idleStreams {
		old := l.idle[0]
		l.idle = l.idle[1:]
		old.expiry.Stop()
		old.close()
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
		s.close()
	}
}

// flows reports whether output comes, or has come, by itself.
func (l *log) flows() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams.Load() > 0 || l.ended >= 0
}

// open makes a stream. Single streams have one chunk, of at most that many
// bytes.
func (l *log) open(off int64, single bool, most int) *stream {
	s := &stream{log: l, n: l.p.f.ids.Add(1), single: single, at: off, expected: off, ready: make(chan struct{}, 1)}
	s.most = min(most, fabric.MaxData)
	if single {
		s.window = int64(s.most)
	} else {
		s.window = l.p.f.lend(firstWindow)
		s.lent = s.window
		s.window = max(s.window, leastWindow)
	}
	s.limit = off + s.window
	if !single {
		l.streams.Add(1)
	}
	f := l.p.f
	f.mu.Lock()
	f.streams[s.n] = s
	f.mu.Unlock()
	return s
}

// lend takes from what memory there is for output.
func (f *Fabric) lend(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = min(n, f.pool)
	f.pool -= n
	return n
}

func (f *Fabric) giveBack(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pool += n
}
