package coalesce

import (
	"testing"
	"time"
)

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces int
		size   int64
		every  time.Duration
		rests  int // after so many of the pieces
	}{
		{"a line now and then", 1000, 80, 10 * time.Millisecond, 0},
		{"a terminal's pictures", 1000, 4096, time.Second / 60, 0},
		{"as often as it may be", 1000, 4096, time.Millisecond, 0},
		{"a few at once", free, 80, 0, 0},
		{"without end", 10 * free, 4096, 20 * time.Microsecond, 9 * free},
		{"large pieces", 1000, Small, 20 * time.Microsecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Stream
			now, rests := time.Now(), 0
			for range c.pieces {
				switch rest := s.Took(c.size, now); rest {
				case 0:
				case Rest:
					rests++
				default:
					t.Fatalf("a rest of %v", rest)
				}
				now = now.Add(c.every)
			}
			if rests != c.rests {
				t.Errorf("%d rests, want %d", rests, c.rests)
			}
		})
	}
}

// What was much is forgotten: after a burst a line is taken at once.
func TestStreamAfterBurst(t *testing.T) {
	var s Stream
	now := time.Now()
	for range 100 {
		s.Took(1, now)
	}
	if s.Took(1, now) != Rest {
		t.Error("a burst is not followed by a rest")
	}
	if rest := s.Took(1, now.Add(window)); rest != 0 {
		t.Errorf("a rest of %v long after", rest)
	}
}
