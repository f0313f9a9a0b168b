// Package streams keeps what logs are read from between one read and the next.
//
// A log is read by offset (corral.Log). Who reads on where he ended reads from
// one stream, which goes on by itself; who reads here and there asks each time.
// The streams themselves are those of packages client and nodeexec.
package streams

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// most is how many streams of one log are kept: so many may read it, each
	// at its own place.
	most = 4
	// limit is for how long a stream is kept that is not read further. It costs the
	// other side some memory, and a place among its readers.
	limit = 2 * time.Second
)

// Idle are the streams of one log that are not being read now. The zero value is
// of a log that was not read yet. Every method may be called from any goroutine.
type Idle[S interface{ Close() }] struct {
	mu    sync.Mutex
	kept  []*idle[S] // the oldest first
	next  int64      // where the last read ended
	ended bool       // it is known that the log has ended before end
	end   int64
}

type idle[S any] struct {
	stream S
	at     int64
	expiry *time.Timer
}

// Take returns a stream that goes on at off, if there is one: it is the caller's,
// who hands it to Keep or closes it. Otherwise sequential says whether to open one
// that goes on, for it is likely to be read on. The error is io.EOF if the log is
// known to have ended before off.
func (l *Idle[S]) Take(off int64) (s S, sequential bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended && off >= l.end {
		return s, false, io.EOF
	}
	i := slices.IndexFunc(l.kept, func(k *idle[S]) bool { return k.at == off })
	if i < 0 {
		return s, off == 0 || off == l.next, nil
	}
	k := l.kept[i]
	l.kept = slices.Delete(l.kept, i, i+1)
	k.expiry.Stop()
	return k.stream, true, nil
}

// Keep keeps a stream that goes on at an offset, where a read has ended. It is
// closed if nobody takes it soon, or if there are too many.
func (l *Idle[S]) Keep(s S, at int64) {
	k := &idle[S]{stream: s, at: at}
	l.mu.Lock()
	l.next = at
	l.kept = append(l.kept, k)
	k.expiry = time.AfterFunc(limit, func() { l.drop(k) })
	var oldest *idle[S]
	if len(l.kept) > most {
		oldest = l.kept[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		l.drop(oldest)
	}
}

// Passed says where a read has ended that leaves no stream.
func (l *Idle[S]) Passed(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = at
}

// drop closes a stream, unless it was taken.
func (l *Idle[S]) drop(k *idle[S]) {
	l.mu.Lock()
	i := slices.Index(l.kept, k)
	if i >= 0 {
		l.kept = slices.Delete(l.kept, i, i+1)
		k.expiry.Stop()
	}
	l.mu.Unlock()
	if i >= 0 {
		k.stream.Close()
	}
}

// End says that the log has ended before off.
func (l *Idle[S]) End(off int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended || off < l.end {
		l.ended, l.end = true, off
	}
}

// Ended reports whether it is known where the log ended.
func (l *Idle[S]) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
