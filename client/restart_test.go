package client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// A command without output is followed for longer than a gateway may be away.
func TestQuietLog(t *testing.T) {
	g := newRig(t)
	c := g.client(func(o *client.Options) { o.Retry = 1500 * time.Millisecond })
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	got := make(chan error, 1)
	ctx := g.limit()
	go func() {
		_, err := p.Log().Read(ctx, 0, make([]byte, 100))
		got <- err
	}()
	for range 2 {
		time.Sleep(2 * time.Second)
		g.away()
		g.back()
	}
	write(t, p, "x\n")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Everything goes on in the gateway's next life.
func TestRestart(t *testing.T) {
	g := newRig(t)
	c := g.client(nil)
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	write(t, p, "one\n")
	if got := read(t, p, 0, 4); got != "one\n" {
		t.Fatalf("%q", got)
	}
	// Its end is an event, since no call waits for it.
	alone := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	type result struct {
		exit corral.Exit
		text string
		err  error
	}
	waiting, reading, starting, ending := make(chan result, 1), make(chan result, 1), make(chan result, 1), make(chan result, 1)
	ctx := g.limit()
	go func() { exit, err := p.Wait(ctx); waiting <- result{exit: exit, err: err} }()
	go func() {
		chunk, err := p.Log().Read(ctx, 4, make([]byte, 100))
		reading <- result{text: string(chunk.Data), err: err}
	}()
	go func() {
		for e, err := range c.Events(ctx, client.EventOptions{}) {
			if err != nil || e.SessionID == alone.Info().ID {
				ending <- result{text: e.SessionID, err: err}
				return
			}
		}
	}()
	g.away()
	go func() {
		q, err := c.Start(ctx, corral.Command{Shell: "echo"})
		if err != nil {
			starting <- result{err: err}
			return
		}
		exit, err := q.Wait(ctx)
		starting <- result{exit: exit, err: err}
	}()
	time.Sleep(50 * time.Millisecond) // so that some tries fail
	g.back()
	write(t, p, "two\n")
	if r := <-reading; r.err != nil || r.text != "two\n" {
		t.Errorf("the Read: %q, %v", r.text, r.err)
	}
	if r := <-starting; r.err != nil || r.exit.Code != 3 {
		t.Errorf("the Start: %+v", r)
	}
	g.away()
	g.back()
	for _, p := range []corral.Process{p, alone} {
		if err := p.CloseStdin(ctx); err != nil {
			t.Errorf("CloseStdin: %v", err)
		}
	}
	if r := <-waiting; r.err != nil || !r.exit.Success() {
		t.Errorf("the Wait: %+v", r)
	}
	if r := <-ending; r.err != nil || r.text != alone.Info().ID {
		t.Errorf("the event: %+v", r)
	}
	if _, err := p.Log().Read(ctx, 8, make([]byte, 1)); err != io.EOF {
		t.Errorf("Read at the end: %v", err)
	}
	if n := g.exec.Starts(); n != 3 {
		t.Errorf("%d commands were begun", n)
	}
}

// A terminal shows what it would have shown without the restart.
func TestRestartTerminal(t *testing.T) {
	g := newRig(t)
	c := g.client(nil)
	ctx := g.limit()
	p := start(t, c, corral.Command{Shell: "cat", TTY: &corral.Size{}})
	term, err := p.Attach(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	text := ""
	hear := func(want string) {
		t.Helper()
		for len(text) < len(want) {
			m, err := term.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if m.Err != nil || m.Exit != nil {
				t.Fatalf("%+v", m)
			}
			text += string(m.Chunk.Data)
		}
		if text != want {
			t.Fatalf("%q, want %q", text, want)
		}
	}
	if err := term.Write(ctx, []byte("one ")); err != nil {
		t.Fatal(err)
	}
	hear("one ")
	if err := term.Resize(ctx, corral.Size{Rows: 10, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	g.away()
	g.back()
	write(t, p, "two ")
	hear("one two ")
	if err := term.Signal(ctx, 99); err != nil {
		t.Fatal(err)
	}
	if m, err := term.Next(ctx); err != nil || !errors.Is(m.Err, corral.ErrInvalid) {
		t.Errorf("a signal that there is not: %+v, %v", m, err)
	}
	if err := term.Signal(ctx, corral.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if m, err := term.Next(ctx); err != nil || m.Exit == nil || m.Exit.Exit.Signal != corral.SIGTERM {
		t.Errorf("the end: %+v, %v", m, err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if _, err := term.Next(ctx); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("after Close: %v", err)
	}
}

// A Client whose very first call is cut has reached the gateway all the same.
func TestFirstCallCut(t *testing.T) {
	g := newRig(t)
	c := g.throughLine()
	g.line.swallow()
	timer := time.AfterFunc(50*time.Millisecond, g.line.cut)
	defer timer.Stop()
	p := start(t, c, corral.Command{Shell: "echo"})
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("%v, %v", exit, err)
	}
}

// What cannot be repeated is lost when the answer is, and what can is repeated.
func TestCut(t *testing.T) {
	g := newRig(t)
	c := g.throughLine()
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	cutDuring := func(f func()) {
		t.Helper()
		g.line.swallow()
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		time.Sleep(100 * time.Millisecond) // the request is with the gateway
		g.line.cut()
		<-done
	}
	cutDuring(func() {
		if n, err := p.Write(t.Context(), []byte("x")); n != 0 || !errors.Is(err, corral.ErrLost) || corral.Hint(err) == "" {
			t.Errorf("Write: %d, %v", n, err)
		}
	})
	if got := read(t, p, 0, 1); got != "x" { // and it did arrive
		t.Errorf("%q", got)
	}
	cutDuring(func() {
		if err := p.Signal(t.Context(), corral.SIGUSR1); !errors.Is(err, corral.ErrLost) {
			t.Errorf("Signal: %v", err)
		}
	})
	cutDuring(func() {
		if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != corral.SIGUSR1 {
			t.Errorf("Wait: %v, %v", exit, err)
		}
	})
	cutDuring(func() {
		if q, err := c.Start(t.Context(), corral.Command{Shell: "echo"}); err != nil {
			t.Errorf("Start: %v", err)
		} else if exit, err := q.Wait(t.Context()); err != nil || exit.Code != 3 {
			t.Errorf("Wait: %v, %v", exit, err)
		}
	})
	if n := g.exec.Starts(); n != 2 {
		t.Errorf("%d commands were begun", n)
	}
	cutDuring(func() {
		if err := p.Remove(t.Context()); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	cutDuring(func() {
		if _, err := c.Exec(t.Context(), tool.ExecRequest{Command: "echo"}); !errors.Is(err, corral.ErrLost) {
			t.Errorf("Exec: %v", err)
		}
	})
	// A Start that is given up may have happened.
	ctx, cancel := context.WithCancel(t.Context())
	g.line.swallow()
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := c.Start(ctx, corral.Command{Shell: "sleep"}); !errors.Is(err, corral.ErrLost) || !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
}

// The log is complete however often the connection is cut while it is read.
func TestCutLog(t *testing.T) {
	g := newRig(t)
	c := g.throughLine()
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	direct, err := g.client(nil).Session(t.Context(), p.Info().ID)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0123456789abcdef", 1<<16)
	go func() {
		for i := 0; i < len(want); i += 1 << 16 {
			if _, err := direct.Write(t.Context(), []byte(want[i:i+1<<16])); err != nil {
				t.Error(err)
			}
			g.line.cut()
		}
		if err := direct.CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var got strings.Builder
	buf := make([]byte, 10_000)
	for {
		chunk, err := p.Log().Read(t.Context(), int64(got.Len()), buf)
		if err == io.EOF {
			break
		}
		if err != nil || chunk.Offset != int64(got.Len()) {
			t.Fatalf("Read(%d): %d, %v", got.Len(), chunk.Offset, err)
		}
		got.Write(chunk.Data)
	}
	if got.String() != want {
		t.Errorf("%d bytes, want %d", got.Len(), len(want))
	}
}

// Who never found a gateway is told at once; who found one waits for it, but
// not for ever.
func TestAway(t *testing.T) {
	g := newRig(t)
	none := g.client(func(o *client.Options) { o.Socket += ".none" })
	begin := time.Now()
	if _, err := none.Start(t.Context(), corral.Command{Shell: "echo"}); !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" {
		t.Errorf("Start: %v", err)
	}
	if _, err := none.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Attach: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	c := g.client(func(o *client.Options) { o.Retry = 100 * time.Millisecond })
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	g.away()
	for what, f := range map[string]func() error{
		"Start":  func() error { _, err := c.Start(t.Context(), corral.Command{Shell: "echo"}); return err },
		"Wait":   func() error { _, err := p.Wait(t.Context()); return err },
		"Write":  func() error { _, err := p.Write(t.Context(), []byte("x")); return err },
		"Read":   func() error { _, err := p.Log().Read(t.Context(), 0, make([]byte, 1)); return err },
		"Stat":   func() error { _, err := p.Log().Stat(t.Context()); return err },
		"Signal": func() error { return p.Signal(t.Context(), corral.SIGINT) },
		"Attach": func() error { _, err := p.Attach(t.Context(), 0); return err },
		"Ready":  func() error { return c.Ready(t.Context()) },
		"Events": func() error {
			for _, err := range c.Events(t.Context(), client.EventOptions{}) {
				return err
			}
			return nil
		},
	} {
		if err := f(); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait with a context that ends: %v", err)
	}
	if _, err := client.Discover(g.dir); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Discover: %v", err)
	}
	g.back()
	if o, err := client.Discover(g.dir); err != nil || o.Socket != g.socket() {
		t.Errorf("Discover: %+v, %v", o, err)
	}
	if st, err := p.Status(t.Context()); err != nil || st.State != session.Running {
		t.Errorf("Status: %+v, %v", st, err)
	}
}

// A client waits for a gateway from when it is away: what was long in coming
// before that does not count.
func TestPatience(t *testing.T) {
	g := newRig(t)
	c := g.client(func(o *client.Options) { o.Retry = 2 * time.Second })
	ctx := g.limit()
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	terminal, err := p.Attach(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	calls := map[string]func() error{
		"Wait": func() error { _, err := p.Wait(ctx); return err },
		"Read": func() error { _, err := p.Log().Read(ctx, 0, make([]byte, 100)); return err },
		"Next": func() error { _, err := terminal.Next(ctx); return err },
		"Events": func() error {
			for _, err := range c.Events(ctx, client.EventOptions{}) {
				return err
			}
			return nil
		},
	}
	type result struct {
		what string
		err  error
	}
	results := make(chan result, len(calls))
	for what, f := range calls {
		go func() { results <- result{what, f()} }()
	}
	time.Sleep(2500 * time.Millisecond)
	g.away()
	time.Sleep(100 * time.Millisecond)
	g.back()
	if _, err := c.Begin(ctx, corral.Command{Shell: "exit 0"}, true); err != nil { // an event
		t.Fatal(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	for range calls {
		if r := <-results; r.err != nil && !errors.Is(r.err, io.EOF) {
			t.Errorf("%s: %v", r.what, r.err)
		}
	}
}
