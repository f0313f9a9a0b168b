package fabric

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/packed"
	"github.com/corral-exec/corral/internal/turn"
)

// Bounds of the memory of readers: each has a small buffer, and some readers with much
// output have a large one.
const (
	maxReaders  = 4096
	smallBuffer = 2 << 10
	maxBigs     = 512
)

var bigBuffers = sync.Pool{New: func() any { b := make([]byte, outputHeader+MaxData); return &b }}

// reader sends the log of a process, up to the granted offset.
type reader struct {
	n      *node
	key    string
	life   string
	number uint64
	ref    Ref
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	p      corral.Process // nil: attach to it first

	mu     sync.Mutex
	next   int64
	had    int64 // what the gateway has, which it never asks for again
	limit  int64
	most   int
	single bool
	packs  bool // the gateway takes output packed
	resets int
	stop   context.CancelFunc // interrupts a Read that waits at another offset
	seen   time.Time
}

// bulk acts upon a request that has no answer.
func (n *node) bulk(e *Envelope) {
	switch e.Op {
	case OpRead:
		g, err := ParseGrant(e.Body)
		if err != nil {
			n.warn("refused a grant that is none", "error", err)
			return
		}
		n.grant(e, g, nil)
	case OpOpen, OpWrite:
		in, err := ParseInput(e.Body)
		if err != nil {
			n.warn("refused input that is none", "error", err)
			return
		}
		n.input(e, in)
	}
}

// grant handles a Grant; p is its process, or nil if it has to be attached to.
func (n *node) grant(e *Envelope, g Grant, p corral.Process) {
	key := e.Life + "." + strconv.FormatUint(g.Reader, 10)
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.readers[key]
	if c := n.portOfLocked(e.ID); c != nil {
		defer c.got(g.From) // when the reader does not read before that any more
	}
	switch {
	case r != nil && r.ref.ID != e.ID:
		n.warn("refused a grant to the reader of another process", "process", e.ID, "gateway", e.Key)
		return
	case r != nil && g.Close:
		r.cancel()
		return
	case r != nil:
		r.grant(g)
		return
	case g.Close, n.closed:
		return
	case len(n.readers) >= maxReaders:
		n.warn("refused a reader", "reason", RefusedBusy, "process", e.ID, "gateway", e.Key, "readers", len(n.readers))
		n.publish(ToGateway(e.Life, n.id, KindOutput, g.Reader), Output{From: g.From, Offset: g.From, Flags: FlagError, Data: encodeError(
			corral.Errorf(corral.ErrUnavailable, "read fewer logs at a time", "node %s has %d readers", n.id, maxReaders))}.Append(nil))
		return
	}
	r = &reader{
		n: n, key: key, life: e.Life, number: g.Reader, ref: e.Ref, wake: make(chan struct{}, 1), p: p,
		next: g.From, had: g.From, limit: g.Limit, most: g.Most, single: g.Single, packs: g.Packed, seen: time.Now(), stop: func() {},
	}
	r.ctx, r.cancel = context.WithCancel(n.ctx)
	n.readers[key] = r
	n.spawnLocked(r.run)
}

func (r *reader) grant(g Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = time.Now()
	r.limit = max(r.limit, g.Limit)
	// A grant may be overtaken by another, and what was asked for once more may arrive after
	// all: a connection to a port keeps nothing that the gateway has.
	had := r.had
	r.had = max(had, g.From)
	if g.From > r.next || g.Reset && g.From != r.next && g.From >= had {
		r.next = g.From
		r.resets++
		r.stop()
	}
	turn.Offer(r.wake, struct{}{})
}

func (r *reader) idle(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.seen)
}

func (r *reader) send(o Output) {
	r.n.publish(ToGateway(r.life, r.n.id, KindOutput, r.number), o.Append(nil))
}

func (r *reader) run() {
	defer r.cancel()
	p, err := r.p, error(nil)
	if p == nil {
		p, err = r.n.attach(r.ctx, r.ref)
	}
	if err != nil {
		r.finish(r.resets0(), r.failed(0, err))
		return
	}
	for {
		at, resets, err := r.copy(p.Log())
		var last *Output
		switch {
		case r.ctx.Err() != nil || err == nil:
		case errors.Is(err, io.EOF):
			last = &Output{From: at, Offset: at, Flags: FlagEnd, Data: r.end(p)}
		default:
			last = r.failed(at, err)
		}
		if r.finish(resets, last) {
			return
		}
	}
}

// resets0 returns the number of resets before the reader began.
func (r *reader) resets0() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resets
}

func (r *reader) failed(at int64, err error) *Output {
	if r.ctx.Err() != nil {
		return nil
	}
	return &Output{From: at, Offset: at, Flags: FlagError, Data: encodeError(err)}
}

// finish removes the reader and sends its last message, unless there was a reset since.
func (r *reader) finish(resets int, last *Output) bool {
	r.n.mu.Lock()
	r.mu.Lock()
	over := r.resets == resets || last == nil || last.Flags&FlagError != 0
	if over && r.n.readers[r.key] == r {
		delete(r.n.readers, r.key)
	}
	r.mu.Unlock()
	r.n.mu.Unlock()
	if over && last != nil {
		r.send(*last)
	}
	return over
}

// end returns the last chunk's data: the exit of the process and what the log holds. It
// saves the gateway a request. If it is empty, the gateway asks.
func (r *reader) end(p corral.Process) []byte {
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil {
		return nil
	}
	a := Answer{Boot: r.n.boot, Exit: &exit}
	if st, err := p.Log().Stat(ctx); err == nil && st.Ended {
		a.Stat = &st
	}
	if b := EncodeAnswer(a); len(b) <= MaxData {
		return b
	}
	return nil
}

// copy sends until the log ends. It returns the end of the log, and the number of
// resets until then.
func (r *reader) copy(log corral.Log) (at int64, resets int, err error) {
	subject := ToGateway(r.life, r.n.id, KindOutput, r.number)
	small := make([]byte, outputHeader+smallBuffer)
	much := false // there is likely more output than fits into a small buffer
	for {
		r.mu.Lock()
		next, room, resets := r.next, r.limit-r.next, r.resets
		ctx, cancel := context.WithCancel(r.ctx)
		r.stop = cancel
		r.mu.Unlock()
		if room <= 0 {
			cancel()
			select {
			case <-r.wake:
				continue
			case <-r.ctx.Done():
				return next, resets, r.ctx.Err()
			}
		}
		buf, release := small, func() {}
		if (much || r.single) && room > smallBuffer {
			buf, release = r.n.bigBuffer(small)
		}
		into := buf[outputHeader : outputHeader+int(min(room, int64(min(r.most, len(buf)-outputHeader))))]
		c, err := log.Read(ctx, next, into)
		interrupted := ctx.Err() != nil && r.ctx.Err() == nil
		cancel()
		if err == nil {
			if !r.publishPacked(subject, next, c) {
				frame := Output{From: next, Offset: c.Offset, Stream: c.Stream}.Append(buf[:0])
				if &c.Data[0] == &into[0] {
					frame = buf[:outputHeader+len(c.Data)]
				} else {
					frame = append(frame, c.Data...)
				}
				r.n.publish(subject, frame) // it copies the frame
			}
			much = len(c.Data) == len(into)
			r.mu.Lock()
			if r.resets == resets {
				r.next = c.Next()
			}
			r.mu.Unlock()
		}
		release()
		switch {
		case err == nil && r.single:
			return next, resets, nil
		case err == nil || interrupted:
		default:
			return next, resets, err
		}
	}
}

// publishPacked sends a chunk packed; false if the gateway does not take that, or it would
// save little.
func (r *reader) publishPacked(subject string, from int64, c corral.Chunk) bool {
	if !r.packs || len(c.Data) < packed.Least {
		return false
	}
	b := bigBuffers.Get().(*[]byte)
	defer bigBuffers.Put(b)
	frame, ok := packed.Append(Output{From: from, Offset: c.Offset, Flags: flagPacked, Stream: c.Stream}.Append((*b)[:0]), c.Data)
	if ok {
		r.n.publish(subject, frame)
	}
	return ok
}

// bigBuffer lends a large buffer, or returns small if none is free.
func (n *node) bigBuffer(small []byte) (buf []byte, release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bigs >= maxBigs {
		return small, func() {}
	}
	n.bigs++
	b := bigBuffers.Get().(*[]byte)
	return *b, func() {
		bigBuffers.Put(b)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.bigs--
	}
}
