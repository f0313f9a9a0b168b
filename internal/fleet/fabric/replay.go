package fabric

import "time"

// A window records which of the last numbers were used. Older numbers count as used.
type window struct {
	bits []uint64
	top  uint64 // the greatest number used
}

func newWindow(size int) window { return window{bits: make([]uint64, size/64)} }

func (w *window) size() uint64 { return uint64(len(w.bits)) * 64 }

func (w *window) used(n uint64) bool {
	switch {
	case n == 0 || n+w.size() <= w.top:
		return true
	case n > w.top:
		return false
	}
	return w.bits[n/64%uint64(len(w.bits))]&(1<<(n%64)) != 0
}

func (w *window) use(n uint64) {
	if n > w.top {
		if n-w.top >= w.size() {
			clear(w.bits)
		} else {
			for i := w.top + 1; i <= n; i++ {
				w.bits[i/64%uint64(len(w.bits))] &^= 1 << (i % 64)
			}
		}
		w.top = n
	}
	w.bits[n/64%uint64(len(w.bits))] |= 1 << (n % 64)
}

// Bounds of a replays.
const (
	maxLives      = 256
	callWindow    = 64 << 10 // numbers
	bulkWindow    = 4 << 10
	maxAnswersLen = 16 << 20 // bytes
)

var maxAnswers = 16 << 10 // a variable for tests

// replays records the accepted requests, and the last answers. A life is forgotten only
// when the node knows the epoch of none of its requests any more, so nothing is
// accepted twice.
type replays struct {
	lives map[string]*life
	fifo  []answered // the oldest first
	bytes int
}

type life struct {
	key        string
	call, bulk window
	until      time.Time // by then, the epoch of its last request has surely ended
	answers    map[uint64][]byte
}

type answered struct {
	life string
	seq  uint64
	size int
}

// A verdict on a request.
type verdict int

const (
	fresh verdict = iota
	again         // it was accepted before
	full          // there are too many gateways
)

// life returns the life of a genuine request, or nil if there are too many. Expired
// lives are removed only when there are too many.
func (r *replays) life(h *Header, now time.Time) *life {
	id := h.Key + "." + h.Life
	l := r.lives[id]
	if l != nil {
		return l
	}
	if len(r.lives) >= maxLives {
		for id, l := range r.lives {
			if now.After(l.until) {
				delete(r.lives, id)
			}
		}
	}
	if len(r.lives) >= maxLives {
		return nil
	}
	l = &life{key: h.Key, call: newWindow(callWindow), bulk: newWindow(bulkWindow), until: now.Add(epochLife), answers: map[uint64][]byte{}}
	if r.lives == nil {
		r.lives = map[string]*life{}
	}
	r.lives[id] = l
	return l
}

// record decides on a genuine request, and records it.
func (r *replays) record(h *Header, now time.Time) verdict {
	l := r.life(h, now)
	if l == nil {
		return full
	}
	w := &l.call
	if h.Op.Bulk() {
		w = &l.bulk
	}
	if w.used(h.Seq) {
		return again
	}
	w.use(h.Seq)
	if h.answered() {
		l.answers[h.Seq] = nil // to come
	}
	if until := now.Add(epochLife); until.After(l.until) {
		l.until = until
	}
	return fresh
}

// answer returns the answer to an accepted request: nil if it is still to come, and not
// known if it is forgotten.
func (r *replays) answer(h *Header) (b []byte, known bool) {
	if l := r.lives[h.Key+"."+h.Life]; l != nil && h.answered() {
		b, known = l.answers[h.Seq]
	}
	return b, known
}

// used reports whether h was accepted before.
func (r *replays) used(h *Header) bool {
	l := r.lives[h.Key+"."+h.Life]
	return l != nil && !h.Op.Bulk() && l.call.used(h.Seq)
}

// usedBy is used if the key of the life is not known.
func (r *replays) usedBy(life string, seq uint64) bool {
	for id, l := range r.lives {
		if id == l.key+"."+life && l.call.used(seq) {
			return true
		}
	}
	return false
}

// note keeps an answer.
func (r *replays) note(h *Header, b []byte) {
	id := h.Key + "." + h.Life
	l := r.lives[id]
	if l == nil {
		return
	}
	l.answers[h.Seq] = b
	r.fifo = append(r.fifo, answered{id, h.Seq, len(b)})
	r.bytes += len(b)
	for len(r.fifo) > maxAnswers || r.bytes > maxAnswersLen {
		old := r.fifo[0]
		r.fifo = r.fifo[1:]
		r.bytes -= old.size
		if l := r.lives[old.life]; l != nil {
			delete(l.answers, old.seq)
		}
	}
}
