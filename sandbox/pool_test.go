package sandbox

import (
	"testing"
	"time"
)

// A pool is filled after a moment in which no box was taken from it, or when it has waited
// long enough.
func TestPoolRest(t *testing.T) {
	began := time.Now()
	at := func(d time.Duration) time.Time { return began.Add(d) }
	var c claims
	if got := c.rest(began); got > 0 {
		t.Errorf("without a claim: %v", got)
	}
	c.add(began)
	for after, want := range map[time.Duration]time.Duration{0: rest, 30 * time.Millisecond: rest - 30*time.Millisecond, rest: 0, time.Hour: rest - time.Hour} {
		if got := c.rest(at(after)); got != want {
			t.Errorf("%v after one claim: %v, want %v", after, got, want)
		}
	}
	last := time.Duration(0)
	for last < maxRest {
		if got := c.rest(at(last)); got <= 0 {
			t.Fatalf("%v after the first claim: %v", last, got)
		}
		last += rest / 2
		c.add(at(last))
	}
	if got := c.rest(at(last)); got > 0 {
		t.Errorf("%v after the first claim, with another just now: %v", last, got)
	}
	p := &Pool{claims: c}
	if got := p.rest(false); got != 0 || p.claims != c {
		t.Errorf("a full pool: %v, %+v", got, p.claims)
	}
	p.claims.add(time.Now())
	p.claims.first = time.Now()
	if got := p.rest(true); got <= 0 || p.claims == (claims{}) {
		t.Errorf("just after a claim: %v, %+v", got, p.claims)
	}
	p.claims.last = p.claims.last.Add(-rest)
	if got := p.rest(true); got > 0 || p.claims != (claims{}) {
		t.Errorf("a moment later: %v, %+v", got, p.claims)
	}
}
