package session

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/session/keys"
)

// A command that could not begin leaves no session, and its ID is free again.
func TestBeginFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		o := Options{Command: corral.Command{ID: "one", Shell: "sleep"}, Background: true}
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpStart {
				return corral.Errorf(corral.ErrUnavailable, "", "no room")
			}
			return nil
		})
		if s, err := r.agent().Begin(r.Context(), o); s != nil || !errors.Is(err, corral.ErrUnavailable) {
			r.Errorf("%v, %v", s, err)
		}
		if p, err := r.agent().Start(r.Context(), o.Command); p != nil || !errors.Is(err, corral.ErrUnavailable) {
			r.Errorf("%v, %v", p, err)
		}
		if _, err := r.agent().Attach(r.Context(), "one"); !errors.Is(err, corral.ErrNotFound) {
			r.Error(err)
		}
		r.break_(nil)
		var told []*Session
		s, err := r.agent().Begin(WithBegun(r.Context(), func(s *Session) { told = append(told, s) }), o)
		r.ok(err)
		if !slices.Equal(told, []*Session{s}) || r.x.Starts() != 1 {
			r.Errorf("told %v, started %d times", told, r.x.Starts())
		}
		if _, err := r.agent().Start(r.Context(), corral.Command{}); !errors.Is(err, corral.ErrInvalid) {
			r.Error(err)
		}
		if _, err := r.m.Agent("a b").Begin(r.Context(), o); !errors.Is(err, corral.ErrInvalid) {
			r.Error(err)
		}
	})
}

// A session whose ID was made here is not what a caller's ID names.
func TestMadeIDIsTaken(t *testing.T) {
	inBubble(t, func(r *rig) {
		made := r.begin("sleep", Options{Background: true})
		_, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{ID: made.ID(), Shell: "sleep"}, Background: true})
		if !errors.Is(err, corral.ErrConflict) || r.x.Starts() != 1 {
			r.Errorf("%v, started %d times", err, r.x.Starts())
		}
	})
}

// A start time tells a session from a later one with its ID.
func TestIs(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("sleep", Options{Background: true})
		at := s.Status(r.Context()).StartedAt
		for d, want := range map[time.Duration]bool{0: true, -time.Hour: false, time.Hour: true} {
			if s.Is(at.Add(d)) != want {
				r.Errorf("%v later: %t", d, !want)
			}
		}
	})
}

// Nothing is typed for nothing, and Enter is what the command reads as the end of a line.
func TestTyping(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("cat", Options{Command: corral.Command{Stdin: true}, Background: true})
		if n, _, err := s.SendKeys(r.Context(), keys.Request{}); n != 0 || !errors.Is(err, corral.ErrInvalid) {
			r.Errorf("no keys: %d, %v", n, err)
		}
		if n, _, err := s.Paste(r.Context(), "", true); n != 0 || !errors.Is(err, corral.ErrInvalid) {
			r.Errorf("no text: %d, %v", n, err)
		}
		if n, w, err := s.Paste(r.Context(), "a", true); n != 1 || len(w) != 0 || err != nil { // no terminal, no brackets
			r.Errorf("%d, %q, %v", n, w, err)
		}
		if n, _, err := s.SendKeys(r.Context(), keys.Request{Literal: "b"}); n != 1 || err != nil {
			r.Errorf("%d, %v", n, err)
		}
		r.ok(s.Submit(r.Context()))
		synctest.Wait()
		buf := make([]byte, 10)
		var got []byte
		for len(got) < 3 {
			c, err := s.Log().Read(r.Context(), int64(len(got)), buf)
			r.ok(err)
			got = append(got, c.Data...)
		}
		if string(got) != "ab\n" {
			r.Errorf("%q", got)
		}
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpWrite {
				return corral.Errorf(corral.ErrUnavailable, "", "away")
			}
			return nil
		})
		_, _, err := s.SendKeys(r.Context(), keys.Request{Literal: "b"})
		_, _, pasted := s.Paste(r.Context(), "a", false)
		for _, err := range []error{err, pasted, s.Submit(r.Context())} {
			if !errors.Is(err, corral.ErrUnavailable) {
				r.Errorf("it could not be sent: %v", err)
			}
		}
	})
}

// What a session that ended says is what was known then, and lists have the newest first.
func TestStatusOfTheEnded(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("greet", Options{Background: true, Keep: true})
		time.Sleep(time.Second)
		other := r.begin("sleep", Options{Background: true})
		synctest.Wait()
		st := s.Status(r.Context())
		if st.State != Completed || st.EndedAt == nil || st.OutputBytes != 6 || st.OmittedBytes != 0 || st.Dir != "/w" || st.WaitingForInput || st.Unreachable {
			r.Errorf("%+v", st)
		}
		if list := r.agent().List(r.Context()); len(list) != 2 || list[0].ID != other.ID() || list[1].ID != s.ID() {
			r.Errorf("%+v", list)
		}
		if names := r.m.Agents(); !slices.Equal(names, []string{DefaultAgent}) {
			r.Errorf("%q", names)
		}
	})
}
