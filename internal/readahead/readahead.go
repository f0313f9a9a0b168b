// Package readahead reads a command's input while what was read before is still being
// written. A write to a command may take a round trip to another machine: it then takes
// along all that has arrived meanwhile, and not one piece.
package readahead

import (
	"sync"
	"sync/atomic"
)

const (
	// Limit bounds what a Reader has read and Next has not returned yet, in bytes.
	Limit = 512 << 10
	// pieceSize bounds one read, in bytes, and is what each Reader may hold. What it holds
	// beyond that is lent to it, of allSpare for all Readers of the program.
	pieceSize = 32 << 10
	allSpare  = 64 << 20
)

var spare atomic.Int64 // that is lent

// A Reader reads in a goroutine of its own until an error, io.EOF or Stop, which has to be
// called in any case.
type Reader struct {
	read func([]byte) (int, error)
	done chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	arrived []byte // not taken yet
	taken   []byte // by the last Next; its memory is used again
	err     error  // of read; nothing is read after it
	lent    int64  // of spare: two buffers may have grown by so much
	reading bool
	stopped bool
}

// New begins to read.
func New(read func([]byte) (int, error)) *Reader {
	r := &Reader{read: read, done: make(chan struct{})}
	r.changed = sync.NewCond(&r.mu)
	go r.run()
	return r
}

func (r *Reader) run() {
	defer close(r.done)
	piece := make([]byte, pieceSize)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.stopped && r.err == nil {
		room := r.room()
		if room == 0 {
			r.changed.Wait()
			continue
		}
		r.reading = true
		r.mu.Unlock()
		n, err := r.read(piece[:room])
		r.mu.Lock()
		r.reading = false
		r.arrived = append(r.arrived, piece[:n]...)
		r.err = err
		r.changed.Broadcast()
	}
}

// room is how much may be read now. mu is held.
func (r *Reader) room() int {
	held := len(r.arrived)
	if grown := int64(2 * held); grown > r.lent {
		if spare.Add(grown-r.lent) > allSpare {
			spare.Add(r.lent - grown)
			return 0
		}
		r.lent = grown
	}
	return min(pieceSize, Limit-held)
}

// Next waits for bytes and returns all that have arrived, which are valid until the next
// call. After the last it returns the error of the read that ended it. After Stop it
// returns neither bytes nor an error.
func (r *Reader) Next() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.arrived) == 0 && r.err == nil && !r.stopped {
		r.changed.Wait()
	}
	switch {
	case r.stopped:
		return nil, nil
	case len(r.arrived) == 0:
		return nil, r.err
	}
	r.taken, r.arrived = r.arrived, r.taken[:0]
	r.changed.Broadcast()
	return r.taken, nil
}

// Stop has no further read begin, and reports whether one is under way, which may never
// return. Wait waits for it.
func (r *Reader) Stop() (reading bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	spare.Add(-r.lent)
	r.lent = 0
	r.changed.Broadcast()
	return r.reading
}

// Wait waits until nothing is read any more.
func (r *Reader) Wait() { <-r.done }
