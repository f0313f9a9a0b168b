package session

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/runner"
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

// A wait for output, a match or the end is over when its key ends, or the gateway is about to
// stop, as it is when its time is.
func TestWaitsEndWithTheKey(t *testing.T) {
	for _, drain := range []bool{false, true} {
		inBubble(t, func(r *rig) {
			ended := make(chan struct{})
			ctx := WithKey(r.Context(), Key{Name: "k", Ended: ended})
			s := r.begin("sleep", Options{Background: true, NotifyOnExit: true})
			time.AfterFunc(time.Second, func() {
				if drain {
					r.m.Drain()
				} else {
					close(ended)
				}
			})
			began := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() {
				if p, err := s.Poll(ctx, PollOptions{Timeout: MaxPoll}); err != nil || p.Status.Ended() {
					r.Errorf("poll: %+v, %v", p.Status, err)
				}
			})
			for _, o := range []WaitOptions{{}, {Output: true}, {Pattern: regexp.MustCompile("x")}} {
				wg.Go(func() {
					if w, err := s.WaitFor(ctx, o); err != nil || w.Met != MetNothing || w.Status.Ended() {
						r.Errorf("wait for %+v: %+v, %v", o, w, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took != time.Second {
				r.Errorf("drained %t: the waits were over after %v", drain, took)
			}
			_, err := s.Kill(r.Context())
			r.ok(err)
		})
	}
}

// Who waits for a command that it started is told when its key ends, or the gateway is about to
// stop. The command goes on, also when the caller is gone then.
func TestAttended(t *testing.T) {
	for _, drain := range []bool{false, true} {
		inBubble(t, func(r *rig) {
			ended := make(chan struct{})
			ctx, gone := context.WithCancel(WithKey(r.Context(), Key{Name: "k", Ended: ended}))
			time.AfterFunc(time.Second, func() {
				if drain {
					r.m.Drain()
				} else {
					close(ended)
				}
			})
			began := time.Now()
			res, err := runner.Run(ctx, Attended{r.agent()}, corral.Command{Shell: "chatty"}, runner.Options{})
			if took := time.Since(began); !errors.Is(err, corral.ErrUnavailable) || took > 2*time.Second || !strings.HasPrefix(res.Output.Head, "word\n") {
				r.Errorf("drained %t: %+v, %v after %v", drain, res, err, took)
			}
			gone()
			time.Sleep(time.Minute)
			s, err := r.agent().Session(res.Info.ID)
			r.ok(err)
			if st := s.Status(r.Context()); st.Ended() {
				r.Errorf("drained %t: it was ended: %+v", drain, st)
			}
			r.ok(s.Discard(r.Context()))
		})
	}
}

// A key may be for some hosts: by it nothing is sent to a session on another one.
func TestKeyOfOtherHosts(t *testing.T) {
	inBubble(t, func(r *rig) {
		no := errors.New("not there")
		ctx := WithKey(r.Context(), Key{Name: "k", Host: func(h corral.Host) error {
			if h == corral.HostGateway {
				return no
			}
			return nil
		}})
		s := r.begin("cat", Options{Command: corral.Command{Stdin: true}, Background: true})
		for what, err := range map[string]error{
			"write": func() error { _, err := s.Write(ctx, []byte("x")); return err }(), "submit": s.Submit(ctx), "eof": s.CloseStdin(ctx),
			"signal": s.Signal(ctx, corral.SIGUSR1), "kill": func() error { _, err := s.Kill(ctx); return err }(), "discard": s.Discard(ctx),
		} {
			if !errors.Is(err, no) {
				r.Errorf("%s: %v", what, err)
			}
		}
		if st := s.Status(ctx); st.Ended() || st.OutputBytes != 0 {
			r.Errorf("%+v", st)
		}
		r.ok(s.CloseStdin(r.Context()))
		r.ok(s.Watch(r.Context()))
		r.ok(s.Remove(ctx)) // it has ended: nothing is there any more
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
