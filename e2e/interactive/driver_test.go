//go:build e2e

package interactive_test

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/session/keys"
)

// A driver is a user in front of a program.
type driver struct {
	*place
	s      *session.Session
	screen *screen
	tty    *os.File // the screen's, to which what the program writes is copied
	off    int64    // output up to here is on the screen
}

// run starts a program on a terminal with a screen.
func (pl *place) run(command string) *driver {
	pl.Helper()
	size := corral.DefaultSize
	s, err := pl.agent.Begin(pl.Context(), session.Options{
		Command: corral.Command{Shell: command, TTY: &size, Grace: -1}, Background: true,
	})
	if err != nil {
		pl.Fatal(err)
	}
	pl.Cleanup(func() {
		if _, err := s.Kill(context.WithoutCancel(pl.Context())); err != nil && !errors.Is(err, corral.ErrEnded) {
			pl.Error(err)
		}
	})
	d := &driver{place: pl, s: s, screen: newScreen(pl.T, size, nil, "sleep", "infinity")}
	// No terminal reads there that could answer a query: the session answers.
	if d.tty, err = os.OpenFile(d.screen.ask("#{pane_tty}"), os.O_WRONLY, 0); err != nil {
		pl.Fatal(err)
	}
	pl.Cleanup(func() { d.tty.Close() })
	if _, err := term.MakeRaw(int(d.tty.Fd())); err != nil {
		pl.Fatal(err)
	}
	return d
}

// press types keys by their names.
func (d *driver) press(names ...string) {
	d.Helper()
	d.send(keys.Request{Keys: names})
}

// enter types a line.
func (d *driver) enter(line string) {
	d.Helper()
	d.send(keys.Request{Literal: line, Keys: []string{"Enter"}})
}

func (d *driver) send(r keys.Request) {
	d.Helper()
	if _, warnings, err := d.s.SendKeys(d.Context(), r); err != nil || len(warnings) > 0 {
		d.Fatalf("cannot type: %v %q", err, warnings)
	}
}

// paste pastes text as the program has asked for it.
func (d *driver) paste(text string, bracketed bool) {
	d.Helper()
	if _, warnings, err := d.s.Paste(d.Context(), text, bracketed); err != nil || len(warnings) > 0 {
		d.Fatalf("cannot paste: %v %q", err, warnings)
	}
}

func (d *driver) resize(size corral.Size) {
	d.Helper()
	d.screen.resize(size)
	if err := d.s.Resize(d.Context(), size); err != nil {
		d.Fatal(err)
	}
}

// until waits until all of that is on the screen.
func (d *driver) until(sights ...sight) {
	d.Helper()
	for end := time.Now().Add(patience); ; {
		d.follow()
		picture := d.screen.picture()
		miss := missing(picture, sights)
		if len(miss) == 0 {
			return
		}
		w, err := d.s.WaitFor(d.Context(), session.WaitOptions{Output: true, Offset: &d.off, Timeout: glance})
		if err != nil {
			d.Fatal(err)
		}
		if time.Now().After(end) || w.Status.Ended() && w.Met != session.MetOutput {
			d.Fatalf("%s: not on the screen: %s\n%s", w.Status.State, strings.Join(miss, ", "), framed(picture))
		}
	}
}

// follow shows the output that there is.
func (d *driver) follow() {
	d.Helper()
	st, err := d.s.Log().Stat(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	for buf := make([]byte, 32<<10); d.off < st.Size; {
		c, err := d.s.Log().Read(d.Context(), d.off, buf)
		if err != nil {
			d.Fatal(err)
		}
		if _, err := d.tty.Write(c.Data); err != nil {
			d.Fatal(err)
		}
		d.off = c.Next()
	}
}

// answer waits for output that matches, after the last that did, and returns
// it.
func (d *driver) answer(from *int64, expression string) string {
	d.Helper()
	w, err := d.s.WaitFor(d.Context(), session.WaitOptions{Pattern: regexp.MustCompile(expression), Offset: from, Timeout: patience})
	if err != nil {
		d.Fatal(err)
	}
	if w.Met != session.MetPattern {
		d.Fatalf("%s: no %q in %q", w.Status.State, expression, d.output()[*from:])
	}
	*from = w.Next
	return w.Match
}

// waits demands that the session soon seems to wait for input.
func (d *driver) waits() {
	d.Helper()
	began := time.Now()
	for !d.status(glance).WaitingForInput {
		if time.Since(began) > session.InputIdle-time.Second { // then it would be for the silence
			d.Fatalf("it does not seem to wait for input after %q", d.output())
		}
	}
}

// works demands that for longer than a prompt takes to be seen as one the
// session does not seem to wait for input.
func (d *driver) works() {
	d.Helper()
	for began := time.Now(); time.Since(began) < session.PromptIdle+time.Second; {
		if d.status(glance).WaitingForInput {
			d.Fatalf("it seems to wait for input after %q", d.output())
		}
	}
}

// status is how the session is after a time, or when it ends.
func (d *driver) status(after time.Duration) session.Status {
	d.Helper()
	w, err := d.s.WaitFor(d.Context(), session.WaitOptions{Timeout: after})
	if err != nil {
		d.Fatal(err)
	}
	return w.Status
}

// ends waits for the program's end.
func (d *driver) ends(code int) {
	d.Helper()
	w, err := d.s.WaitFor(d.Context(), session.WaitOptions{Timeout: patience})
	if err != nil {
		d.Fatal(err)
	}
	if w.Met != session.MetExit || w.Status.Exit == nil || w.Status.Exit.Code != code {
		d.follow()
		d.Fatalf("it is %s, %v, want exit code %d\n%s", w.Status.State, w.Status.Exit, code, framed(d.screen.picture()))
	}
}

// output is everything that the program wrote.
func (d *driver) output() string {
	d.Helper()
	st, err := d.s.Log().Stat(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	var out strings.Builder
	for off, buf := int64(0), make([]byte, 32<<10); off < st.Size; {
		c, err := d.s.Log().Read(d.Context(), off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.Fatal(err)
		}
		out.Write(c.Data)
		off = c.Next()
	}
	return out.String()
}

// show has the test's log show the screen.
func (d *driver) show(title string) {
	d.Helper()
	d.Logf("%s:\n%s", title, framed(d.screen.picture()))
}
