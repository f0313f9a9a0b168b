package fakeexec

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/corral-exec/corral"
)

// memLog is a corral.Log in memory. It keeps a stream's name with each byte
// run, and drops the middle when it is full.
type memLog struct {
	limit corral.LogLimit

	mu     sync.Mutex
	chunks []corral.Chunk // in order, none empty
	stat   corral.LogStat
	more   chan struct{} // closed and replaced when something changes
}

func newMemLog(limit corral.LogLimit) *memLog {
	return &memLog{
		limit: corral.LogLimit{
			Head: cmp.Or(limit.Head, corral.LimitOutput.Head),
			Tail: cmp.Or(limit.Tail, corral.LimitOutput.Tail),
		},
		more: make(chan struct{}),
	}
}

// append reports whether the log still took data.
func (l *memLog) append(s corral.Stream, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stat.Ended {
		return false
	}
	if len(data) == 0 {
		return true
	}
	c := corral.Chunk{Offset: l.stat.Size, Stream: s, Data: slices.Clone(data)}
	if n := l.limit.Head - c.Offset; n > 0 && n < int64(len(c.Data)) { // half of it is head
		l.chunks = append(l.chunks, corral.Chunk{Offset: c.Offset, Stream: s, Data: c.Data[:n]})
		c.Offset, c.Data = c.Offset+n, c.Data[n:]
	}
	l.chunks = append(l.chunks, c)
	l.stat.Size = c.Next()
	l.drop()
	l.wake()
	return true
}

// drop makes the gap [Head, Size-Tail).
func (l *memLog) drop() {
	end := l.stat.Size - l.limit.Tail
	if end <= l.limit.Head {
		return
	}
	l.stat.GapStart, l.stat.GapEnd = l.limit.Head, end
	l.chunks = slices.DeleteFunc(l.chunks, func(c corral.Chunk) bool {
		return c.Offset >= l.limit.Head && c.Next() <= end
	})
	for i, c := range l.chunks {
		if c.Offset >= l.limit.Head && c.Offset < end {
			l.chunks[i].Data, l.chunks[i].Offset = c.Data[end-c.Offset:], end
		}
	}
}

func (l *memLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stat.Ended = true
	l.wake()
}

func (l *memLog) wake() {
	close(l.more)
	l.more = make(chan struct{})
}

// Read implements corral.Log.
func (l *memLog) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	for {
		l.mu.Lock()
		c, ok := l.at(off, buf)
		ended, more := l.stat.Ended, l.more
		l.mu.Unlock()
		switch {
		case ok:
			return c, nil
		case ended:
			return corral.Chunk{}, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
			return corral.Chunk{}, ctx.Err()
		}
	}
}

func (l *memLog) at(off int64, buf []byte) (corral.Chunk, bool) {
	for _, c := range l.chunks {
		if off < c.Next() {
			if skip := off - c.Offset; skip > 0 {
				c.Offset, c.Data = off, c.Data[skip:]
			}
			c.Data = buf[:copy(buf, c.Data)]
			return c, true
		}
	}
	return corral.Chunk{}, false
}

// Stat implements corral.Log.
func (l *memLog) Stat(context.Context) (corral.LogStat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stat, nil
}

// faultyLog is the log as a user of the process sees it.
type faultyLog struct{ p *process }

func (l faultyLog) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if err := l.p.ex.check(ctx, OpRead, l.p.info.ID); err != nil {
		return corral.Chunk{}, err
	}
	return l.p.log.Read(ctx, off, buf)
}

func (l faultyLog) Stat(ctx context.Context) (corral.LogStat, error) {
	if err := l.p.ex.check(ctx, OpRead, l.p.info.ID); err != nil {
		return corral.LogStat{}, err
	}
	return l.p.log.Stat(ctx)
}
