package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func TestYieldInTheForeground(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{NotifyOnExit: true})
		st, err := s.Yield(r.Context(), 10*time.Minute)
		r.ok(err)
		if st.State != Completed || st.Exit.Code != 3 || st.Background || st.OutputBytes != 5 {
			r.Errorf("%+v", st)
		}
		r.events(0) // its caller has seen it
		r.ok(s.Clear(r.Context()))
		if list := r.agent().List(r.Context()); len(list) != 0 {
			r.Errorf("still listed: %+v", list)
		}
	})
}

func TestYieldToTheBackground(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{NotifyOnExit: true})
		began := time.Now()
		st, err := s.Yield(r.Context(), 10*time.Second)
		r.ok(err)
		if st.State != Running || !st.Background || time.Since(began) != 10*time.Second {
			r.Errorf("%+v after %v", st, time.Since(began))
		}
		r.events(0)
		time.Sleep(time.Minute)
		r.status(s, Completed, "")
		r.events(1)
		e := r.seen()[0]
		if e.Seq != 1 || e.Type != EventFinished || e.SessionID != s.ID() || e.Exit.Code != 3 || !e.Wake || e.Tail != "oops" ||
			e.Text != "Exec failed ("+s.ID()+", code 3) :: oops" {
			r.Errorf("%+v", e)
		}
	})
}

// A caller that goes away takes a command in its foreground with it, and
// leaves one in the background alone.
func TestYieldCancelled(t *testing.T) {
	inBubble(t, func(r *rig) {
		why := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(r.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		s := r.begin("stubborn", Options{NotifyOnExit: true})
		st, err := s.Yield(ctx, time.Hour)
		if !errors.Is(err, why) || st.State != Failed || st.Reason != ReasonCancelled || st.Exit.Signal != corral.SIGKILL {
			r.Errorf("%v, %+v", err, st)
		}
		r.events(0)

		ctx, cancel = context.WithCancelCause(r.Context())
		s = r.begin("sleep", Options{Background: true})
		cancel(why)
		if st, err := s.Yield(ctx, time.Hour); !errors.Is(err, why) || st.State != Running {
			r.Errorf("in the background: %v, %+v", err, st)
		}
		r.ok(s.Discard(r.Context()))
	})
}

// Of two calls that hold one session, the first to go away does not take it
// from the other.
func TestYieldTwice(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("work", Options{Command: corral.Command{ID: "mine"}})
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		done := make(chan Status, 1)
		go func() {
			st, _ := s.Yield(context.Background(), time.Hour)
			done <- st
		}()
		synctest.Wait()
		again := r.begin("work", Options{Command: corral.Command{ID: "mine"}})
		if again != s || r.x.Starts() != 1 {
			r.Fatalf("%p is not %p, or %d starts", again, s, r.x.Starts())
		}
		if _, err := again.Yield(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		if st := <-done; st.State != Completed {
			r.Errorf("%+v", st)
		}
	})
}

func TestDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("work", Options{})
		time.AfterFunc(time.Second, r.m.Drain)
		st, err := s.Yield(r.Context(), time.Hour)
		r.ok(err)
		if !st.Background || st.State != Running {
			r.Errorf("%+v", st)
		}
		if _, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{Shell: "true"}}); !errors.Is(err, corral.ErrUnavailable) {
			r.Errorf("while it drains: %v", err)
		}
	})
}

func TestKill(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("stubborn", Options{Background: true, NotifyOnExit: true})
		st, err := s.Kill(r.Context())
		r.ok(err)
		if st.State != Failed || st.Reason != ReasonKilled || st.Exit.Signal != corral.SIGKILL {
			r.Errorf("%+v", st)
		}
		r.events(0) // who killed it has seen it end
		if _, err := s.Kill(r.Context()); !errors.Is(err, corral.ErrEnded) {
			r.Errorf("again: %v", err)
		}
	})
}

// A kill that the gateway began goes on when it comes back.
func TestKillAcrossLives(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("stubborn", Options{Background: true})
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := s.Kill(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Fatal(err)
		}
		r.reopen()
		s = r.again(s)
		time.Sleep(time.Minute)
		r.status(s, Failed, ReasonKilled)
	})
}

func TestKillUnsupported(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("work", Options{Background: true})
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpSignal {
				return errors.ErrUnsupported
			}
			return nil
		})
		if _, err := s.Kill(r.Context()); !errors.Is(err, errors.ErrUnsupported) {
			r.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
		r.status(s, Completed, "") // it was not killed
	})
}

func TestOfAnotherAgent(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("sleep", Options{Command: corral.Command{ID: "mine"}, Background: true})
		other := r.m.Agent("other")
		if _, err := other.Session(s.ID()); !errors.Is(err, corral.ErrNotFound) {
			r.Errorf("Session: %v", err)
		}
		if _, err := other.Attach(r.Context(), s.ID()); !errors.Is(err, corral.ErrNotFound) {
			r.Errorf("Attach: %v", err)
		}
		if list := other.List(r.Context()); len(list) != 0 {
			r.Errorf("List: %+v", list)
		}
		_, err := other.Begin(r.Context(), Options{Command: corral.Command{ID: "mine", Shell: "sleep"}})
		if !errors.Is(err, corral.ErrConflict) {
			r.Errorf("Begin: %v", err)
		}
		if _, err := r.m.Agent("../x").Begin(r.Context(), Options{Command: corral.Command{Shell: "true"}}); !errors.Is(err, corral.ErrInvalid) {
			r.Errorf("a name that is none: %v", err)
		}
		r.ok(s.Discard(r.Context()))
	})
}

func TestBeginConflict(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.begin("true", Options{Command: corral.Command{ID: "mine"}, Background: true})
		_, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{ID: "mine", Shell: "false"}})
		if !errors.Is(err, corral.ErrConflict) {
			r.Error(err)
		}
	})
}

func TestMaxRunning(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.m.cfg.MaxRunning = 1
		s := r.begin("sleep", Options{Background: true})
		o := Options{Command: corral.Command{Shell: "true"}}
		if _, err := r.agent().Begin(r.Context(), o); !errors.Is(err, corral.ErrUnavailable) {
			r.Error(err)
		}
		r.ok(s.Discard(r.Context()))
		r.begin("true", Options{})
	})
}

func TestNotStarted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpStart {
				return corral.Errorf(corral.ErrUnavailable, "", "no engine")
			}
			return nil
		})
		_, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{ID: "mine", Shell: "true"}})
		if !errors.Is(err, corral.ErrUnavailable) {
			r.Error(err)
		}
		if list := r.agent().List(r.Context()); len(list) != 0 {
			r.Errorf("listed: %+v", list)
		}
		r.break_(nil)
		r.begin("true", Options{Command: corral.Command{ID: "mine"}})
	})
}

// The answer to a start that got lost: the session is there, and says in the
// end what became of it.
func TestStartLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.break_(func(op fakeexec.Op, _ string) error {
			switch op {
			case fakeexec.OpStarted:
				return corral.Errorf(corral.ErrLost, "", "the connection broke")
			case fakeexec.OpAttach:
				return corral.Errorf(corral.ErrUnavailable, "", "no connection")
			}
			return nil
		})
		_, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{ID: "mine", Shell: "fail"}, NotifyOnExit: true})
		if !errors.Is(err, corral.ErrLost) {
			r.Fatal(err)
		}
		s, err := r.agent().Session("mine")
		r.ok(err)
		if st := s.Status(r.Context()); st.State != Running || !st.Unreachable {
			r.Errorf("%+v", st)
		}
		r.break_(nil)
		time.Sleep(2 * time.Minute)
		r.status(s, Completed, "")
		r.events(1)
	})
}

// A call that was cancelled while it was not known whether its command began: the
// command is killed as soon as it is found, also by the next life.
func TestStartLostCancelled(t *testing.T) {
	inBubble(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		r.break_(func(op fakeexec.Op, _ string) error {
			switch op {
			case fakeexec.OpStarted:
				cancel()
				return corral.Errorf(corral.ErrLost, "", "the call was cancelled")
			case fakeexec.OpAttach:
				return corral.Errorf(corral.ErrUnavailable, "", "no connection")
			}
			return nil
		})
		s, err := r.agent().Begin(ctx, Options{Command: corral.Command{Shell: "sleep"}})
		if !errors.Is(err, corral.ErrLost) {
			r.Fatal(err)
		}
		r.reopen()
		r.break_(nil)
		time.Sleep(time.Minute)
		r.status(r.again(s), Failed, ReasonCancelled)
	})
}

func TestReopen(t *testing.T) {
	inBubble(t, func(r *rig) {
		background := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		foreground := r.begin("fail", Options{NotifyOnExit: true})
		endsMeanwhile := r.begin("greet", Options{})
		over := r.begin("greet", Options{Background: true})
		cleared := r.begin("greet", Options{Background: true})
		synctest.Wait()
		r.ok(cleared.Clear(r.Context()))
		r.reopen()
		for _, s := range []*Session{background, foreground} {
			if st := r.again(s).Status(r.Context()); st.State != Running || !st.Background || st.PID == 0 {
				r.Errorf("%+v", st)
			}
		}
		r.status(r.again(endsMeanwhile), Completed, "")
		r.status(r.again(over), Completed, "")
		if text, err := r.again(over).Tail(r.Context(), 100); err != nil || text != "hello\n" {
			r.Errorf("%q, %v", text, err)
		}
		if _, err := r.agent().Session(cleared.ID()); !errors.Is(err, corral.ErrNotFound) {
			r.Errorf("cleared: %v", err)
		}
		time.Sleep(time.Minute)
		r.events(2)
		r.reopen()
		r.events(2) // exactly once
		r.status(r.again(foreground), Completed, "")
		if exit, err := r.again(background).Wait(r.Context()); err != nil || exit.Code != 3 {
			r.Errorf("%v, %v", exit, err)
		}
	})
}

// What became of a session in the time between two lives.
func TestReopenTo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		attach error
		state  State
		reason Reason
		events int
	}{
		// Its caller was never told that it had begun.
		{"never heard of", corral.ErrNotFound, Failed, ReasonNotStarted, 0},
		{"lost", corral.ErrLost, Unknown, ReasonLost, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				s := r.begin("sleep", Options{Command: corral.Command{ID: "mine"}, NotifyOnExit: true})
				r.break_(func(op fakeexec.Op, _ string) error {
					if op == fakeexec.OpAttach {
						return corral.Errorf(tc.attach, "", "so it is")
					}
					return nil
				})
				r.ok(r.m.journal.add(line{})) // says nothing
				// A kill before anything was noted of the process.
				table := r.cfg.Dir + "/" + journalName
				b, err := os.ReadFile(table)
				r.ok(err)
				r.ok(r.m.Close())
				b = slices.Concat(b[:strings.LastIndex(string(b), `{"op":""`)], []byte(`{"op":"end","id":"mi`))
				r.ok(os.WriteFile(table, b, 0o600))
				r.open()
				s = r.again(s)
				r.status(s, tc.state, tc.reason)
				r.events(tc.events)
				_, err = s.Wait(r.Context())
				if want := tc.attach; !errors.Is(err, want) {
					r.Errorf("Wait: %v", err)
				}
				if p, err := s.Poll(r.Context(), PollOptions{Timeout: time.Second}); err != nil || p.Status.State != tc.state || p.RetryIn != 0 {
					r.Errorf("Poll: %+v, %v", p, err)
				}
				// What is not known is not run again; what never began is begun.
				again, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{ID: "mine", Shell: "sleep"}, Background: true})
				if (again == s) != (tc.state == Unknown) || tc.state == Unknown && err != nil {
					r.Errorf("beginning it again: %v", err)
				}
			})
		})
	}
}

// A command whose start was sent to an executor did not "never begin", also if the executor
// has forgotten it since.
func TestReopenForgotten(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("sleep", Options{Background: true, NotifyOnExit: true})
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpAttach {
				return corral.Errorf(corral.ErrNotFound, "", "the sandbox was removed")
			}
			return nil
		})
		r.reopen()
		r.status(r.again(s), Unknown, ReasonLost)
		r.events(1)
	})
}

func TestReopenUnreachable(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpAttach {
				return corral.Errorf(corral.ErrUnavailable, "", "the engine is down")
			}
			return nil
		})
		r.reopen()
		s = r.again(s)
		if st := s.Status(r.Context()); st.State != Running || !st.Unreachable {
			r.Errorf("%+v", st)
		}
		began := time.Now()
		if _, err := s.Log().Read(r.Context(), 0, make([]byte, 1)); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "the engine is down") ||
			time.Since(began) != reachLimit {
			r.Errorf("reading after %v: %v", time.Since(began), err)
		}
		time.Sleep(time.Hour)
		r.status(s, Running, "")
		r.break_(nil)
		time.Sleep(10 * time.Second)
		r.status(s, Completed, "")
		r.events(1)
	})
}

// A connection to the executor that breaks while a command runs.
func TestExecutorComesBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpWait || op == fakeexec.OpAttach {
				return corral.Errorf(corral.ErrUnavailable, "", "no connection")
			}
			return nil
		})
		s := r.begin("fail", Options{Background: true})
		time.Sleep(time.Second)
		if st := s.Status(r.Context()); !st.Unreachable {
			r.Errorf("%+v", st)
		}
		r.break_(nil)
		exit, err := s.Wait(r.Context())
		if err != nil || exit.Code != 3 {
			r.Errorf("%v, %v", exit, err)
		}
	})
}

// Of a long command enough is kept to tell which it is.
func TestLongCommand(t *testing.T) {
	inBubble(t, func(r *rig) {
		long := "true # " + strings.Repeat("é", 1<<20-100) + " end"
		r.x.Programs[long] = r.x.Programs["true"]
		st := r.begin(long, Options{Background: true}).Status(r.Context())
		if n := len(st.Command); n > MaxText+200 || !strings.HasPrefix(st.Command, "true # é") || !strings.HasSuffix(st.Command, "é end") || !utf8.ValidString(st.Command) {
			r.Errorf("%d bytes are shown", n)
		}
	})
}

// fillDisk has nothing be written to the table until repair is called.
func (r *rig) fillDisk() (repair func()) {
	r.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	r.ok(err)
	r.m.journal.Fail(func(op string) error {
		if op == "cut" {
			return full.Truncate(0)
		}
		_, err := full.WriteString(op)
		return err
	})
	return func() { r.m.journal.Fail(nil); r.ok(full.Close()) }
}

// What left the foreground is in the background, even if that cannot be written.
func TestDiskFullYield(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{NotifyOnExit: true})
		repair := r.fillDisk()
		if st, err := s.Yield(r.Context(), time.Second); err == nil || st.State != Running || !st.Background {
			r.Errorf("%+v, %v", st, err)
		}
		repair()
		time.Sleep(time.Hour)
		r.status(s, Completed, "")
		r.events(1)
	})
}

// There is no other session of an ID before the table on disk says that the
// first is gone: or it would say that the other is.
func TestDrop(t *testing.T) {
	m, err := Open(t.Context(), Config{Dir: t.TempDir(), Executor: func(context.Context, string) (corral.Executor, error) { return nil, corral.ErrUnavailable }})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(m, "mine", begun{Origin: origin.Origin{Agent: DefaultAgent}})
	m.sessions["mine"] = s
	written := make(chan struct{})
	m.journal.Fail(func(string) error { <-written; return nil })
	dropped := make(chan error)
	go func() { dropped <- m.drop(s, "") }()
	for range 50 {
		time.Sleep(time.Millisecond)
		if m.mu.TryLock() {
			if m.sessions["mine"] == nil {
				t.Error("the ID is free, and the table on disk has the session")
			}
			m.mu.Unlock()
		}
	}
	close(written)
	if err := errors.Join(<-dropped, m.Close()); err != nil {
		t.Error(err)
	}
}

// A full disk starts nothing, and puts an end off until it can be written.
func TestDiskFull(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		repair := r.fillDisk()
		if _, err := r.agent().Begin(r.Context(), Options{Command: corral.Command{Shell: "true"}}); !errors.Is(err, corral.ErrUnavailable) || strings.Count(err.Error(), "cannot write") != 1 {
			r.Errorf("Begin: %v", err)
		}
		if n := r.x.Starts(); n != 1 {
			r.Errorf("%d starts", n)
		}
		time.Sleep(time.Hour)
		r.status(s, Running, "")
		r.events(0)
		repair()
		time.Sleep(10 * time.Second)
		r.status(s, Completed, "")
		r.events(1)
	})
}

// What the one who started a command was told of it is not forgotten with the
// gateway, even if the executor knows nothing of it.
func TestNoticeOverLives(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.cfg.Executor = func(context.Context, string) (corral.Executor, error) {
			return corral.NewRouter(corral.RouterOptions{Gateway: r.x}), nil // the sandbox is off
		}
		r.reopen()
		s := r.begin("fail", Options{})
		notice := s.Status(r.Context()).Notice
		if !strings.HasPrefix(notice, "the sandbox is off") {
			r.Fatalf("%q", notice)
		}
		r.reopen()
		if got := r.again(s).Status(r.Context()).Notice; got != notice {
			r.Errorf("in the next life: %q, want %q", got, notice)
		}
		time.Sleep(time.Hour)
		r.reopen()
		if got := r.again(s).Status(r.Context()).Notice; got != notice {
			r.Errorf("after its end: %q, want %q", got, notice)
		}
	})
}

// What ended in an earlier life is not counted.
func TestTotalsSinceOpen(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("false", Options{Background: true})
		if _, err := s.Wait(r.Context()); err != nil {
			t.Fatal(err)
		}
		if begun, failed := r.m.Totals(); begun != 1 || failed != 1 {
			t.Errorf("%d begun, %d failed", begun, failed)
		}
		r.reopen()
		if begun, failed := r.m.Totals(); begun != 0 || failed != 0 {
			t.Errorf("in the next life: %d begun, %d failed", begun, failed)
		}
	})
}
