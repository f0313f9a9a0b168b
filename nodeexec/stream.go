package nodeexec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/turn"
)

// A stream's window bounds the output that is on its way or unread. It grows while
// output is read and memory is free; it is never below leastWindow.
const (
	leastWindow = 4 << 10
	firstWindow = 64 << 10
	mostWindow  = 4 << 20
	mostQueued  = 16 << 10 // pieces, however small
)

// A waiting reader asks again now and then: a message may have been lost unnoticed, and
// nodes remove readers that are silent for a minute.
const (
	firstRepeat = 2 * time.Second
	lastRepeat  = 15 * time.Second
	resetPause  = 200 * time.Millisecond
)

// stream is output from a node, from an offset up to the granted limit. One Read at a
// time uses it.
type stream struct {
	log    *log
	n      uint64
	single bool
	most   int
	widest int64 // of window

	ready chan struct{}

	mu       sync.Mutex
	asked    bool
	queue    []corral.Chunk
	held     int64 // bytes in queue
	expected int64 // offset of the next data
	limit    int64 // granted
	granted  int64 // the greatest limit sent to the node
	window   int64
	lent     int64 // part of window that comes from the Fabric's memory
	read0    int64 // bytes read since the window last grew
	lost     bool  // a chunk did not arrive
	resetAt  time.Time
	resetTo  int64
	err      error // error after queue
	closed   bool
}

// receive stores a message of the node. Missing or excess data is asked for again when
// it is needed. The error says that the node broke the protocol.
func (s *stream) receive(o fabric.Output) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer turn.Offer(s.ready, struct{}{})
	end := o.Offset + int64(len(o.Data))
	switch {
	case s.err != nil || s.closed:
	case o.Flags&fabric.FlagError != 0:
		s.err = o.Err()
	case o.Flags == 0 && o.From+int64(len(o.Data)) > s.granted:
		s.lost = true
		return fmt.Errorf("output from %d to %d, where at most %d was granted", o.From, o.From+int64(len(o.Data)), s.granted)
	case o.From > s.expected:
		s.lost = true
	case o.Flags&fabric.FlagEnd != 0:
		s.err = io.EOF
		if a, err := fabric.ParseAnswer(o.Data); err == nil && a.Exit != nil {
			if a.Stat != nil && a.Stat.Ended {
				s.log.final.Store(a.Stat)
			}
			s.log.p.exited(*a.Exit)
		}
	case end <= s.expected: // a repetition
	default:
		if o.Offset < s.expected {
			o.Data = bytes.Clone(o.Data[s.expected-o.Offset:]) // so that the rest of the message can be freed
			o.Offset = s.expected
		}
		if s.held+int64(len(o.Data)) > s.window+fabric.MaxData || len(s.queue) >= mostQueued {
			s.lost = true
			return nil
		}
		s.expected = end
		s.held += int64(len(o.Data))
		s.add(corral.Chunk{Offset: o.Offset, Stream: o.Stream, Data: o.Data})
	}
	return nil
}

// add queues a chunk, together with the one before it if both are small.
func (s *stream) add(c corral.Chunk) {
	const small = 4 << 10
	if len(s.queue) > 0 {
		last := &s.queue[len(s.queue)-1]
		if last.Stream == c.Stream && last.Next() == c.Offset && len(last.Data)+len(c.Data) <= small {
			last.Data = append(last.Data[:len(last.Data):cap(last.Data)], c.Data...)
			return
		}
	}
	if len(c.Data) < small { // copied, so that the rest of the message can be freed
		c.Data = append(make([]byte, 0, 2*len(c.Data)), c.Data...)
	}
	s.queue = append(s.queue, c)
}

// read returns the next chunk.
func (s *stream) read(ctx context.Context, buf []byte) (corral.Chunk, error) {
	f, p := s.log.p.f, s.log.p.peer
	begun := time.Now()
	var timer *time.Timer
	for pause := firstRepeat; ; {
		c, grant, err := s.next(buf)
		if grant != nil {
			s.send(*grant)
		}
		if err != nil || len(c.Data) > 0 {
			return c, err
		}
		_, changed := p.state()
		wait := pause
		if s.missing() {
			wait = resetPause
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-s.ready:
		case <-changed:
			s.again()
		case <-timer.C:
			pause = min(2*pause, lastRepeat)
			if p.quiet(begun) > f.patience || !f.isPaired(p.id) {
				return corral.Chunk{}, s.log.p.unavailable(errAway)
			}
			s.again()
		case <-ctx.Done():
			return corral.Chunk{}, ctx.Err()
		case <-f.ctx.Done():
			return corral.Chunk{}, f.closedError()
		}
	}
}

// first returns a grant that goes with the start of the process, so that its output
// comes unasked. It is at most head: a reader that begins at a gap needs no more.
func (s *stream) first(head int64) *fabric.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if head <= 0 {
		head = corral.LimitOutput.Head
	}
	s.asked = true
	s.limit = min(s.limit, head)
	s.granted = s.limit
	return &fabric.Grant{Reader: s.n, Limit: s.limit, Packed: true}
}

// again makes the node repeat everything that has not arrived.
func (s *stream) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.resetAt = true, time.Time{}
}

// missing reports whether output has to be asked for again.
func (s *stream) missing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// next takes a chunk from the queue, and returns a grant for the node if one is due.
func (s *stream) next(buf []byte) (c corral.Chunk, grant *fabric.Grant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		first := &s.queue[0]
		k := copy(buf, first.Data)
		c = corral.Chunk{Offset: first.Offset, Stream: first.Stream, Data: buf[:k]}
		first.Offset += int64(k)
		first.Data = first.Data[k:]
		s.held -= int64(k)
		if len(first.Data) == 0 {
			s.queue[0] = corral.Chunk{}
			s.queue = s.queue[1:]
		}
		s.grow(int64(k))
	} else if s.err != nil {
		return c, nil, s.err
	}
	if s.err != nil {
		return c, nil, nil
	}
	limit := s.expected + s.window - s.held
	if s.single {
		limit = s.expected + int64(s.most)
	}
	// Reset only if nothing else can be read. Messages sent before the last reset
	// arrive first, and are no reason for another.
	reset := s.lost && len(s.queue) == 0 && s.asked &&
		(s.expected != s.resetTo || time.Since(s.resetAt) >= resetPause)
	if !s.asked || reset || !s.single && limit-s.limit >= s.window/4 {
		s.limit = max(limit, s.limit)
		if reset {
			s.lost, s.resetAt, s.resetTo = false, time.Now(), s.expected
			s.limit = limit
		}
		s.asked, s.granted = true, max(s.granted, s.limit)
		grant = &fabric.Grant{Reader: s.n, From: s.expected, Limit: s.limit, Most: s.most, Reset: reset, Single: s.single, Packed: true}
		if !s.single {
			grant.Most = 0
		}
	}
	return c, grant, nil
}

// grow counts bytes that were read, and widens the window step by step.
func (s *stream) grow(k int64) {
	s.read0 += k
	if s.single || s.read0 < s.window || s.window >= s.widest {
		return
	}
	s.read0 = 0
	if more := s.log.p.f.lend(s.window); more > 0 {
		s.window += more
		s.lent += more
	}
}

func (s *stream) send(g fabric.Grant) {
	p := s.log.p
	boot, _ := p.peer.state()
	if boot == "" {
		return // it cannot be asked before its life is known
	}
	sealed, err := p.f.seal(p.peer, boot, fabric.OpRead, p.ref(), g.Encode())
	if err != nil {
		p.f.log.Warn("cannot ask for output", "node", p.name, "error", err)
		return
	}
	p.f.send(p.peer, sealed)
}

// Close ends the stream, here and on the node.
func (s *stream) Close() {
	s.mu.Lock()
	if !s.single && !s.closed {
		s.log.flowing.Add(-1)
	}
	told := s.closed || s.err != nil || s.single || !s.asked
	lent := s.lent
	s.closed, s.queue, s.held, s.lent = true, nil, 0, 0
	s.mu.Unlock()
	f := s.log.p.f
	f.mu.Lock()
	delete(f.streams, s.n)
	f.mu.Unlock()
	f.giveBack(lent)
	if !told && f.ctx.Err() == nil {
		s.send(fabric.Grant{Reader: s.n, Close: true})
	}
}
