package session

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// rig is a Manager over an executor whose commands outlive it.
type rig struct {
	*testing.T
	x     *fakeexec.Executor
	fault atomic.Pointer[func(fakeexec.Op, string) error]
	cfg   Config
	m     *Manager
}

// inBubble runs a test with a rig, and with a clock of its own.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t}
		r.x = &fakeexec.Executor{
			Info: corral.Info{Host: corral.HostGateway, Dir: "/w"},
			Programs: map[string]fakeexec.Program{
				"sleep": fakeexec.Sleep, "cat": fakeexec.Cat,
				"true": fakeexec.Print("", "", 0), "false": fakeexec.Print("", "", 1),
				"greet": fakeexec.Print("hello\n", "", 0),
				"work":  work(time.Minute, "done\n", 0),
				"fail":  work(time.Minute, "oops\n", 3),
				"chatty": func(o *fakeexec.IO) int {
					for o.Context.Err() == nil {
						_, _ = io.WriteString(o.Stdout, "word\n")
						time.Sleep(100 * time.Millisecond)
					}
					return 1
				},
				"silent":   work(time.Minute, "", 0),
				"stubborn": func(o *fakeexec.IO) int { o.Ignore(corral.SIGTERM); return fakeexec.Sleep(o) },
			},
			Fault: func(op fakeexec.Op, id string) error {
				if f := r.fault.Load(); f != nil {
					return (*f)(op, id)
				}
				return nil
			},
		}
		r.cfg = Config{Dir: dir, Executor: func(context.Context, string) (corral.Executor, error) { return r.x, nil }}
		r.open()
		t.Cleanup(func() {
			r.break_(nil)
			r.ok(r.m.Close())
			r.ok(r.x.Close())
		})
		test(r)
	})
}

// work is a command that takes a time.
func work(d time.Duration, output string, code int) fakeexec.Program {
	return func(o *fakeexec.IO) int {
		select {
		case <-time.After(d):
			return fakeexec.Print(output, "", code)(o)
		case <-o.Context.Done():
			return 1
		}
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) open() {
	r.Helper()
	m, err := Open(r.Context(), r.cfg)
	r.ok(err)
	r.m = m
}

// reopen is the next life of the gateway. Close writes nothing, so that what
// the table says is what it would say after a kill.
func (r *rig) reopen() {
	r.Helper()
	r.ok(r.m.Close())
	r.open()
}

// break_ has calls of the executor fail.
func (r *rig) break_(f func(op fakeexec.Op, id string) error) {
	if f == nil {
		r.fault.Store(nil)
		return
	}
	r.fault.Store(&f)
}

func (r *rig) agent() Agent { return r.m.Agent(DefaultAgent) }

func (r *rig) begin(command string, o Options) *Session {
	r.Helper()
	o.Command.Shell = command
	s, err := r.agent().Begin(r.Context(), o)
	r.ok(err)
	synctest.Wait() // it runs by now
	return s
}

// again is the session of an earlier life.
func (r *rig) again(s *Session) *Session {
	r.Helper()
	got, err := r.agent().Session(s.ID())
	r.ok(err)
	return got
}

// seen are the events so far.
func (r *rig) seen() []Event {
	synctest.Wait()
	got, _ := r.m.events.after("", 0)
	return got.Events
}

func (r *rig) events(n int) {
	r.Helper()
	if got := r.seen(); len(got) != n {
		r.Fatalf("%d events, want %d: %+v", len(got), n, got)
	}
}

func (r *rig) status(s *Session, state State, reason Reason) {
	r.Helper()
	synctest.Wait()
	if got := s.Status(r.Context()); got.State != state || got.Reason != reason {
		r.Fatalf("it is %s %q (%s), want %s %q", got.State, got.Reason, got.Detail, state, reason)
	}
}
