package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// besides opens the Manager of another gateway, over the same node. Its commands
// are the agent main's.
func (r *rig) besides(change func(*Config)) *Manager {
	r.Helper()
	r.x.Origin = &origin.Origin{Agent: DefaultAgent, Command: "cat notes", Stdin: true}
	cfg := r.cfg
	cfg.Dir += "-2"
	cfg.Elsewhere = r.x.Attach
	if change != nil {
		change(&cfg)
	}
	m, err := Open(r.Context(), cfg)
	r.ok(err)
	r.Cleanup(func() { r.ok(m.Close()) })
	return m
}

// What an agent began through one gateway it reads, writes to, waits for and
// removes through another.
func TestElsewhere(t *testing.T) {
	inBubble(t, func(r *rig) {
		other := r.besides(nil)
		first := r.begin("cat", Options{Background: true, NotifyOnExit: true, Command: corral.Command{Stdin: true}})
		agent := other.Agent(DefaultAgent)
		if _, err := agent.Session(first.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("Session: %v", err)
		}
		s, err := agent.Find(r.Context(), first.ID())
		r.ok(err)
		if again, err := agent.Find(r.Context(), first.ID()); err != nil || again != s {
			t.Errorf("found again: %v, %v", again, err)
		}
		if p, err := agent.Attach(r.Context(), first.ID()); err != nil || p != corral.Process(s) {
			t.Errorf("attached: %v, %v", p, err)
		}
		st := s.Status(r.Context())
		if st.State != Running || st.Command != "cat notes" || st.Name != "cat notes" || !st.Stdin || st.TTY || !st.Background || st.Agent != DefaultAgent || !st.StartedAt.Equal(first.Info().StartedAt) {
			t.Errorf("%+v", st)
		}
		if list := agent.List(r.Context()); len(list) != 1 {
			t.Errorf("%+v", list)
		}
		if _, err := s.Write(r.Context(), []byte("hello\n")); err != nil {
			t.Error(err)
		}
		r.ok(first.CloseStdin(r.Context()))
		synctest.Wait()
		r.status(s, Completed, "")
		if out, err := s.Output(r.Context(), 1000); err != nil || out.Stdout.String() != "hello\n" {
			t.Errorf("%q, %v", out.Stdout, err)
		}
		r.events(1)
		if got, _ := other.events.after("", 0); len(got.Events) > 0 {
			t.Errorf("its end is %+v at the other gateway as well", got.Events)
		}
		r.ok(s.Remove(r.Context()))
		if _, err := agent.Find(r.Context(), first.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("Find after Remove: %v", err)
		}
	})
}

// To other agents it does not exist. They cannot find out that it does.
func TestElsewhereOfOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		other := r.besides(nil)
		first := r.begin("sleep", Options{Background: true})
		stranger := other.Agent("stranger")
		_, none := stranger.Find(r.Context(), "nothing-at-all")
		_, err := stranger.Find(r.Context(), first.ID())
		if !errors.Is(err, corral.ErrNotFound) || err.Error() != "no session found for "+first.ID() || none.Error() != "no session found for nothing-at-all" || corral.Hint(err) != corral.Hint(none) {
			t.Errorf("%v and %v are told apart", err, none)
		}
		if len(other.all()) != 0 {
			t.Error("somebody else's process became a session")
		}
		// Nor once it is its agent's session there.
		if _, err := other.Agent(DefaultAgent).Find(r.Context(), first.ID()); err != nil {
			t.Error(err)
		}
		if _, err := stranger.Find(r.Context(), first.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Error(err)
		}
		// A process without an owner belongs to no agent.
		r.x.Origin = nil
		unowned := r.begin("sleep", Options{Background: true})
		if _, err := other.Agent(DefaultAgent).Find(r.Context(), unowned.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Error(err)
		}
		if _, err := other.Agent(DefaultAgent).Find(r.Context(), "-"); !errors.Is(err, corral.ErrNotFound) {
			t.Error(err)
		}
		r.break_(func(op fakeexec.Op, _ string) error {
			return corral.Errorf(corral.ErrUnavailable, "", "cannot tell")
		})
		if _, err := stranger.Find(r.Context(), "nothing-at-all"); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("although a node is away: %v", err)
		}
	})
}

// The next life of the other gateway has it too, and a table that is full forgets
// it without taking it from the one that began it.
func TestElsewhereIsKept(t *testing.T) {
	inBubble(t, func(r *rig) {
		var cfg Config
		other := r.besides(func(c *Config) { c.Retention = Retention{Age: time.Hour}; cfg = *c })
		first := r.begin("work", Options{Background: true})
		_, err := other.Agent(DefaultAgent).Find(r.Context(), first.ID())
		r.ok(err)
		r.ok(other.Close())
		other, err = Open(r.Context(), cfg)
		r.ok(err)
		defer func() { r.ok(other.Close()) }()
		s, err := other.Agent(DefaultAgent).Session(first.ID())
		r.ok(err)
		time.Sleep(2 * time.Minute)
		r.status(s, Completed, "")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if _, err := other.Agent(DefaultAgent).Session(first.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("kept for two hours: %v", err)
		}
		if out, err := first.Output(r.Context(), 1000); err != nil || out.Stdout.String() != "done\n" {
			t.Errorf("%q, %v", out.Stdout, err)
		}
		if again, err := other.Agent(DefaultAgent).Find(r.Context(), first.ID()); err != nil {
			t.Errorf("found again: %v, %v", again, err)
		}
	})
}

// Many who look for one find one.
func TestElsewhereAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		other := r.besides(nil)
		first := r.begin("sleep", Options{Background: true})
		found := make(chan string, 20)
		for range cap(found) {
			go func() {
				s, err := other.Agent(DefaultAgent).Find(context.Background(), first.ID())
				found <- fmt.Sprintf("%p %v", s, err)
			}()
		}
		all := map[string]bool{}
		for range cap(found) {
			all[<-found] = true
		}
		if len(all) != 1 || len(other.all()) != 1 {
			t.Errorf("found %v", all)
		}
	})
}
