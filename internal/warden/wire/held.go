package wire

// Held is bytes of a stream that one end keeps until the other has them. They are in
// pieces, whose memory is used again: one buffer that grows behind while it shrinks in
// front would be copied again and again. The zero Held begins at byte 0.
type Held struct {
	start, end int64
	skip       int      // bytes of the first piece that were dropped
	pieces     [][]byte // none is empty
	free       [][]byte // pieces of pieceSize bytes
}

const (
	// pieceSize is how many bytes are in a piece if there is much. Others are smaller.
	pieceSize = 128 << 10
	// maxFree bounds the pieces that wait to be used again.
	maxFree = 4
)

// HeldFrom holds nothing yet, and begins at a byte.
func HeldFrom(off int64) Held { return Held{start: off, end: off} }

// Start is where the first byte is that is held.
func (h *Held) Start() int64 { return h.start }

// End is where the next byte will be.
func (h *Held) End() int64 { return h.end }

// Len is how many bytes are held.
func (h *Held) Len() int { return int(h.end - h.start) }

// Add holds a copy of b too.
func (h *Held) Add(b []byte) {
	if len(h.pieces) == 0 && len(b) < pieceSize/2 {
		h.free = nil // there is little now
	}
	h.end += int64(len(b))
	for len(b) > 0 {
		last := len(h.pieces) - 1
		if last < 0 || len(h.pieces[last]) == cap(h.pieces[last]) {
			h.pieces = append(h.pieces, h.piece())
			last++
		}
		p := h.pieces[last]
		n := copy(p[len(p):cap(p)], b)
		h.pieces[last], b = p[:len(p)+n], b[n:]
	}
}

// piece is an empty one: one that waits, or a new one no larger than all that is held.
func (h *Held) piece() []byte {
	last := len(h.free) - 1
	if last < 0 {
		return make([]byte, 0, min(h.Len(), pieceSize))
	}
	p := h.free[last]
	h.free = h.free[:last]
	return p
}

// From is held bytes from off on: those that are in one piece, so that they fit into a
// message. They are valid until they are dropped.
func (h *Held) From(off int64) []byte {
	at := off - h.start + int64(h.skip)
	for _, p := range h.pieces {
		if at < int64(len(p)) {
			return p[at:]
		}
		at -= int64(len(p))
	}
	return nil
}

// Drop lets go of what is before off.
func (h *Held) Drop(off int64) {
	for off = min(off, h.end); h.start < off; {
		p := h.pieces[0]
		n := int(min(off-h.start, int64(len(p)-h.skip)))
		h.start += int64(n)
		if h.skip += n; h.skip < len(p) {
			return
		}
		h.skip, h.pieces[0], h.pieces = 0, nil, h.pieces[1:]
		if cap(p) == pieceSize && len(h.free) < maxFree {
			h.free = append(h.free, p[:0])
		}
	}
	if len(h.pieces) == 0 {
		h.pieces = nil
	}
}
