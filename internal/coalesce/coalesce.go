// Package coalesce keeps output that comes in many small pieces from costing a
// wake-up for each of them.
//
// A program that writes without end, a few KiB at a time, wakes its reader for
// every write: the reader's work is no part of what the program's sandbox may use,
// and comes to more than the program's own. Network drivers have the same trouble
// with packets and the same answer, interrupt coalescing: after some pieces in
// short time the reader leaves the stream alone for a moment, in which the rest
// gathers in the pipe. Output that comes now and then is taken at once, and so is
// what comes in large pieces.
package coalesce

import "time"

const (
	// Rest is for how long a stream is left alone. A terminal's picture is drawn
	// 60 times a second at best.
	Rest = time.Millisecond
	// Small is below how many bytes a piece is small: half of what a pipe holds
	// that nobody has enlarged (pipe(7)), so that none is ever kept waiting with a
	// full one.
	Small = 32 << 10

	window = 16 * time.Millisecond
	free   = 16 // small pieces in a window that are followed by no rest
)

// A Stream is what is known of the pieces of one stream. The zero value is of one
// that has had none.
type Stream struct {
	since time.Time // when the window began
	small int       // small pieces in it
}

// Took notes a piece of n bytes, and returns how long to leave the stream alone.
func (s *Stream) Took(n int64, now time.Time) time.Duration {
	if n >= Small {
		return 0
	}
	if now.Sub(s.since) >= window {
		s.since, s.small = now, 0
	}
	if s.small++; s.small <= free {
		return 0
	}
	return Rest
}
