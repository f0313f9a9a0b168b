package streams

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type stream struct{ closed atomic.Int32 }

func (s *stream) Close() { s.closed.Add(1) }

// is demands what Take returns.
func is(t *testing.T, l *Idle[*stream], off int64, want *stream, sequential bool) {
	t.Helper()
	if s, seq, err := l.Take(off); s != want || seq != sequential || err != nil {
		t.Errorf("at %d: %p, %v, %v; want %p, %v", off, s, seq, err, want, sequential)
	}
}

func closed(t *testing.T, s *stream, want int32) {
	t.Helper()
	if n := s.closed.Load(); n != want {
		t.Errorf("closed %d times, want %d", n, want)
	}
}

// Who reads on gets the stream that he has read from, and nobody else gets it.
func TestReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Idle[*stream]
		is(t, &l, 0, nil, true)
		is(t, &l, 5, nil, false)
		s := new(stream)
		l.Keep(s, 10)
		is(t, &l, 9, nil, false)
		is(t, &l, 10, s, true)
		is(t, &l, 10, nil, true) // where the last read ended
		time.Sleep(2 * limit)
		closed(t, s, 0) // it is in use
		l.Passed(20)
		is(t, &l, 10, nil, false)
		is(t, &l, 20, nil, true)
	})
}

// What nobody takes is closed, once.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Idle[*stream]
		var all [most + 2]stream
		for i := range all {
			l.Keep(&all[i], int64(i))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		for i := range all { // the oldest go first
			closed(t, &all[i], map[bool]int32{true: 1}[i < 2])
		}
		is(t, &l, 3, &all[3], true)
		time.Sleep(2 * limit)
		for i := range all {
			closed(t, &all[i], map[bool]int32{true: 1}[i != 3])
		}
		is(t, &l, 5, nil, true)
	})
}

// Of a log that has ended nothing is asked any more.
func TestEnd(t *testing.T) {
	var l Idle[*stream]
	if l.Ended() {
		t.Error("it has ended before it was read")
	}
	for _, off := range []int64{7, 9, 5} {
		l.End(off)
	}
	if !l.Ended() {
		t.Error("it has not ended")
	}
	is(t, &l, 4, nil, false)
	for _, off := range []int64{5, 6} {
		if _, _, err := l.Take(off); !errors.Is(err, io.EOF) {
			t.Errorf("at %d: %v", off, err)
		}
	}
}

// However many read, each stream is one reader's or closed.
func TestManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Idle[*stream]
		var made, used atomic.Int32
		var mu sync.Mutex
		var all []*stream
		var reading sync.WaitGroup
		for range 8 {
			reading.Go(func() {
				for i := range 100 {
					s, _, err := l.Take(int64(i % 3))
					if err != nil {
						t.Error(err)
					}
					if s == nil {
						s = new(stream)
						made.Add(1)
						mu.Lock()
						all = append(all, s)
						mu.Unlock()
					} else {
						used.Add(1)
					}
					if s.closed.Load() > 0 {
						t.Error("a closed stream was handed out")
					}
					l.Keep(s, int64((i+1)%3))
				}
			})
		}
		reading.Wait()
		time.Sleep(2 * limit)
		for _, s := range all {
			closed(t, s, 1)
		}
		if made.Load() == 0 || used.Load() == 0 {
			t.Errorf("%d were made, and used %d times: this tests nothing", made.Load(), used.Load())
		}
	})
}
