package wardenexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// What was about to be started when the gateway died was not started if the very
// warden that was asked says so, or ended with nothing to keep; otherwise that
// is not known.
func TestNeverStarted(t *testing.T) {
	const asked, other = 1, 2 // wardens; fakes say that they are 1
	for _, tc := range []struct {
		name   string
		warden uint64 // that was asked
		gone   bool   // there is none now
		idle   bool   // it ended with nothing to keep
		want   error
	}{
		{"the same says so", asked, false, false, corral.ErrNotFound},
		{"another says so", other, false, false, corral.ErrLost},
		{"another, after it ended with nothing", other, false, true, corral.ErrNotFound},
		{"it is gone", asked, true, false, corral.ErrLost},
		{"it ended with nothing", asked, true, true, corral.ErrNotFound},
		{"an old journal", 0, false, true, corral.ErrLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				closeFDs(fds)
				f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: wire.CodeNotFound})
			})
			e := fakeExecutor(t, func(start bool) (wire.Conn, error) {
				if tc.gone && !start {
					return nil, ErrGone
				}
				return f.gw, nil
			})
			e.opts.EndedIdle = func(warden uint64) bool { return tc.idle && warden == tc.warden }
			if err := e.records.start("x", tc.warden, tag{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and it stays so
				p, err := e.Attach(context.Background(), "x")
				if err == nil {
					_, err = p.Wait(context.Background())
				}
				if !errors.Is(err, tc.want) {
					t.Fatalf("%v, want %v", err, tc.want)
				}
			}
		})
	}
}

// A warden that does not know a process has perhaps seen its end off: the journal, which
// says so, was damaged. And it may have one that the journal has lost.
func TestJournalDamagedWardenAsked(t *testing.T) {
	dir := t.TempDir()
	text := append(signed(wasStarted, "x", startOf(1, "", corral.LogLimit{})), "\nE x {damaged\n"...)
	if err := os.WriteFile(filepath.Join(dir, journalName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also in the next life
		f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
			closeFDs(fds)
			code := wire.CodeNotFound
			if m.ID == "silent" {
				code = wire.CodeUnavailable
			}
			f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: code})
		}, &wire.Message{Type: wire.Item, ID: "silent"})
		e, err := New(Options{Dir: dir, Connect: func(context.Context, bool) (wire.Conn, error) { return f.gw, nil }, EndedIdle: func(uint64) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Attach(t.Context(), "silent"); err == nil || errors.Is(err, corral.ErrNotFound) {
			t.Errorf("what the warden has: %v", err)
		}
		p, err := e.Attach(t.Context(), "x")
		if err == nil {
			_, err = p.Wait(t.Context())
		}
		if !errors.Is(err, corral.ErrLost) {
			t.Errorf("what may have run: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What an earlier life may have started is started again only if it certainly was not.
func TestStartedAgain(t *testing.T) {
	const asked, other = 1, 2 // wardens; fakes say that they are 1
	for _, tc := range []struct {
		name   string
		warden uint64 // that was asked
		idle   bool   // it ended with nothing to keep
		want   error
	}{
		{"the same warden does not have it", asked, false, nil},
		{"another warden was asked", other, false, corral.ErrLost},
		{"another was asked, and ended with nothing", other, true, nil},
		{"an old journal", 0, false, corral.ErrLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				closeFDs(fds)
				switch m.Type {
				case wire.Start:
					f.started(m)
					f.exited(m.ID)
				case wire.Attach:
					f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: wire.CodeNotFound})
				}
			})
			e := fakeExecutor(t, f.connect)
			e.opts.EndedIdle = func(warden uint64) bool { return tc.idle && warden == tc.warden }
			if err := e.records.start("x", tc.warden, tag{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and it stays so
				p, err := e.Start(t.Context(), corral.Command{ID: "x", Args: []string{"x"}})
				if !errors.Is(err, tc.want) {
					t.Fatalf("Start: %v, want %v", err, tc.want)
				}
				if err == nil {
					waitSoon(t, p)
				}
			}
			if tc.want == nil {
				return
			}
			p, err := e.Attach(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("Wait: %v, want %v", err, tc.want)
			}
		})
	}
}

// That a warden is gone says nothing of what the next one, which may run already, has
// started.
func TestLoseSparesTheNextWarden(t *testing.T) {
	var fakes []*fake
	for range 2 {
		fakes = append(fakes, newFake(t, func(f *fake, m *wire.Message, fds []int) {
			closeFDs(fds)
			if m.Type == wire.Start {
				f.started(m)
			}
		}))
	}
	next := 0
	e := fakeExecutor(t, func(start bool) (wire.Conn, error) {
		if !start {
			return nil, ErrGone
		}
		next++
		return fakes[next-1].gw, nil
	})
	start := func(id string) corral.Process {
		p, err := e.Start(t.Context(), corral.Command{ID: id, Args: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := start("first")
	fakes[0].conn.Close()
	if _, err := first.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("of the warden that is gone: %v", err)
	}
	start("second")
	e.lose(ErrGone) // late
	if e.Running() != 1 {
		t.Error("the process of the next warden was given up")
	}
}
