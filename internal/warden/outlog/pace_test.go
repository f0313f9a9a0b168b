package outlog

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		p := NewPace(2 * mib)
		for _, tt := range []struct {
			after time.Duration
			n     int64
			want  time.Duration
		}{
			{0, mib / 2, 0},
			{0, mib / 2, 0}, // what may come at once
			{0, mib, time.Second / 2},
			{0, 3 * mib, 2 * time.Second},
			{3 * time.Second, mib, 0}, // and what was not used in the meantime is there again, but no more
			{0, mib, time.Second / 2},
			{0, 0, 0},
			{time.Hour, mib, 0},
			{0, mib, time.Second / 2},
		} {
			time.Sleep(tt.after)
			if got := p.Took(tt.n); got != tt.want {
				t.Errorf("%+v: %v", tt, got)
			}
		}
		for _, none := range []int64{0, -1} {
			if got := NewPace(none).Took(1 << 40); got != 0 {
				t.Errorf("%d: %v", none, got)
			}
		}
	})
}
