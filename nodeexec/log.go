package nodeexec

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/streams"
)

// log reads a process's log on its node. For sequential reads it keeps one stream that
// the node fills. Each read at another offset is a request of its own.
type log struct {
	p *process

	idle    streams.Idle[*stream]
	flowing atomic.Int32 // streams that run

	final atomic.Pointer[corral.LogStat] // the final size; nil until it is known
}

// Stat implements corral.Log.
func (l *log) Stat(ctx context.Context) (corral.LogStat, error) {
	if err := ctx.Err(); err != nil {
		return corral.LogStat{}, err
	}
	if st := l.final.Load(); st != nil {
		return *st, nil
	}
	a, err := l.p.ask(ctx, fabric.OpStat, l.p.ref(), nil, l.p.f.patience)
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
	s, sequential, err := l.idle.Take(off)
	if err != nil {
		return corral.Chunk{Offset: off}, err
	}
	if s == nil {
		s = l.open(off, !sequential, len(buf))
	}
	c, err := s.read(ctx, buf)
	switch {
	case err == nil && s.single:
		l.idle.Passed(c.Next())
		s.Close()
	case err == nil:
		l.idle.Keep(s, c.Next())
	case errors.Is(err, io.EOF):
		l.idle.End(off)
		s.Close()
		return corral.Chunk{Offset: off}, io.EOF
	case ctx.Err() != nil && !s.single:
		l.idle.Keep(s, off)
		return corral.Chunk{Offset: off}, ctx.Err()
	default:
		s.Close()
		return corral.Chunk{Offset: off}, err
	}
	return c, nil
}

// flows reports whether output comes, or has come, through a stream.
func (l *log) flows() bool { return l.flowing.Load() > 0 || l.idle.Ended() }

// open makes a stream. A single stream has one chunk, of at most most bytes.
func (l *log) open(off int64, single bool, most int) *stream {
	s := &stream{log: l, n: l.p.f.ids.Add(1), single: single, expected: off, widest: mostWindow, ready: make(chan struct{}, 1)}
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
		l.flowing.Add(1)
	}
	f := l.p.f
	f.mu.Lock()
	f.streams[s.n] = s
	f.mu.Unlock()
	return s
}

// lend lends up to n bytes of the memory for output.
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
