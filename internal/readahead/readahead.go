// Package readahead reads a command's input while what was read before is still being
// written. A write to a command may take a round trip to another machine: it then takes
// along all that has arrived meanwhile, and not one piece.
package readahead

import "sync"

// Limit bounds what is read and not taken yet, in bytes.
const Limit = 512 << 10

// pieceSize bounds one read, in bytes.
const pieceSize = 32 << 10

// A Reader reads in a goroutine of its own until an error, io.EOF or Stop.
type Reader struct {
	read func([]byte) (int, error)
	done chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	arrived []byte // not taken yet
	taken   []byte // by the last Next; its memory is used again
	err     error  // of read; nothing is read after it
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
	for {
		for len(r.arrived) >= Limit && !r.stopped {
			r.changed.Wait()
		}
		if r.stopped || r.err != nil {
			return
		}
		room := Limit - len(r.arrived)
		r.reading = true
		r.mu.Unlock()
		n, err := r.read(piece[:min(pieceSize, room)])
		r.mu.Lock()
		r.reading = false
		r.arrived = append(r.arrived, piece[:n]...)
		r.err = err
		r.changed.Broadcast()
	}
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
	r.changed.Broadcast()
	return r.reading
}

// Wait waits until nothing is read any more.
func (r *Reader) Wait() { <-r.done }
