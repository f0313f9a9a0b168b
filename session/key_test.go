package session

import (
	"errors"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// The quota of a key counts what runs of all its agents, and nothing else; when the key
// ends, what is in the foreground of its calls goes on in the background.
func TestKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		ended := make(chan struct{})
		ctx := WithKey(r.Context(), Key{Name: "k", Max: 2, Of: func(agent string) bool { return agent != "other" }, Ended: ended})
		begin := func(agent string) (*Session, error) {
			return r.m.Agent(agent).Begin(ctx, Options{Command: corral.Command{Shell: "sleep"}, Background: agent != "a"})
		}
		s, err := begin("a")
		r.ok(err)
		second, err := begin("b")
		r.ok(err)
		_, err = r.m.Agent("other").Begin(r.Context(), Options{Command: corral.Command{Shell: "sleep"}, Background: true})
		r.ok(err)
		if _, err := begin("a"); !errors.Is(err, api.ErrTooMany) {
			r.Errorf("a third: %v", err)
		}
		if got := s.Status(ctx); got.Key != "k" {
			r.Errorf("it was begun by %q", got.Key)
		}
		time.AfterFunc(time.Second, func() { close(ended) })
		began := time.Now()
		st, err := s.Yield(ctx, time.Hour)
		if err != nil || st.State != Running || !st.Background || time.Since(began) != time.Second {
			r.Errorf("the key has ended: %+v, %v after %v", st, err, time.Since(began))
		}
		r.ok(second.Discard(r.Context()))
		_, err = begin("b")
		r.ok(err)
	})
}

// The rules of an agent "default" would be those of main.
func TestAgentDefault(t *testing.T) {
	if err := ValidateAgent("default"); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
	if err := ValidateAgent(DefaultAgent); err != nil {
		t.Error(err)
	}
}
