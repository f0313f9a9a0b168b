//go:build e2e

package chaos_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/internal/test/traces"
)

// The gateway is killed with SIGKILL at random moments, while it works and
// while it begins. Nothing is lost.
func TestKills(t *testing.T) {
	kills, sessions := setting(t, "CORRAL_CHAOS_KILLS", 15), setting(t, "CORRAL_CHAOS_SESSIONS", 30)
	s := newSite(t)
	left := traces.New(t, s.dir)
	s.begin()
	l, stop := s.load(t)
	r := moments.Seeded(t, "CORRAL_CHAOS_SEED")

	// The sandboxes are there before: on a busy machine no gateway lives for as long
	// as it takes to make one. TestKilledAtEachStep of package sandbox kills amid that.
	for _, c := range l.agents {
		p, err := c.Begin(t.Context(), shell("true"), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var working sync.WaitGroup
	seed := r.Uint64()
	working.Go(func() { l.keep(sessions, seed, done) })
	began := time.Now()
	for k := 0; k < kills && !t.Failed(); k++ {
		if r.IntN(4) > 0 {
			s.await(l.agents[0])
		}
		time.Sleep(moments.Between(r, 0, 600*time.Millisecond))
		s.kill()
		time.Sleep(moments.Between(r, 0, 50*time.Millisecond))
		s.begin()
		if k%10 == 9 {
			t.Logf("%d kills in %v: %d sessions are over, %d live", k+1, time.Since(began).Round(time.Second), l.sessions.Load(), l.live.Load())
		}
	}
	close(done)
	working.Wait()
	s.await(l.agents[0])
	for _, c := range l.agents {
		if list, err := c.Sessions(t.Context(), false); err != nil || len(list) > 0 && !t.Failed() {
			t.Errorf("sessions that were removed are still listed: %+v, %v", list, err)
		}
	}
	stop()
	t.Logf("%d kills under %d sessions at a time, in %v: %d sessions, %d bytes, %d exits, %d events; %d unknown",
		kills, sessions, time.Since(began).Round(time.Second), l.sessions.Load(), l.bytes.Load(), l.exits.Load(), l.announced.Load(), l.unknown.Load())
	s.clear(left, "main", "other")
}

// load prepares sessions on the site, whose gateway has begun. stop ends listening to events,
// and demands that every event came.
func (s *site) load(t *testing.T) (l *load, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l = &load{t: t, s: s, ctx: ctx, expect: map[string]bool{}, last: map[string]int64{}, agents: []*client.Client{s.client("main"), s.client("other")}}
	for _, c := range l.agents { // a client that has never reached a gateway does not wait for one
		s.await(c)
	}
	listening, hangUp := context.WithCancel(ctx)
	var owned sync.WaitGroup
	for _, c := range l.agents {
		owned.Go(func() {
			if err := l.listen(listening, c); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("events: %v", err)
			}
		})
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			hangUp()
			owned.Wait()
			cancel()
			for id, announced := range l.expect {
				if !announced {
					t.Errorf("the end of %s is not announced", id)
				}
			}
		})
	}
	t.Cleanup(stop)
	return l, stop
}

// clear ends the site in good order, removes the sandboxes of agents, and demands
// that nothing is left.
func (s *site) clear(left *traces.Traces, sandboxes ...string) {
	s.t.Helper()
	left.Look(s.t)
	s.stop()
	for _, agent := range sandboxes {
		s.corral("sandbox", "rm", "--state-dir", s.state, agent)
	}
	// The supervisor of this machine's commands ends by itself, a little later.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		running := left.Look(s.t)
		if running["process"] == 0 && running["container"] == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Errorf("left behind: %s: %q", traces.Summary(running), left.Left(s.t))
			return
		}
	}
}
