//go:build e2e && chaos

package chaos_test

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A clock that is set forth and back ends nothing early, and nothing late.
// Setting it disturbs the whole machine: this is for make chaos alone, and needs
// the right to do so.
func TestClockJumps(t *testing.T) {
	s := newSite(t)
	s.begin()
	l, stop := s.load(t)
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() { l.keep(18, 1, done) })
	offset := time.Duration(0)
	defer func() { jump(t, -offset) }()
	for _, d := range []time.Duration{time.Hour, -2 * time.Hour, 48 * time.Hour, -47 * time.Hour, time.Second, -time.Minute} {
		time.Sleep(2 * time.Second)
		jump(t, d)
		offset += d
		if d > time.Minute {
			s.kill()
			s.begin()
		}
	}
	time.Sleep(3 * time.Second)
	close(done)
	working.Wait()
	t.Logf("%d sessions", l.sessions.Load())
	stop()
}

// jump sets the machine's clock.
func jump(t *testing.T, by time.Duration) {
	t.Helper()
	now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		t.Fatalf("the clock cannot be set: %v", err)
	}
}
