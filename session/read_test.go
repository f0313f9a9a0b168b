package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session/keys"
)

func TestPoll(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("cat", Options{Command: corral.Command{Stdin: true}, Background: true, NotifyOnExit: true})
		poll := func(s *Session, timeout time.Duration, want string, retry time.Duration) {
			r.Helper()
			p, err := s.Poll(r.Context(), PollOptions{Timeout: timeout})
			r.ok(err)
			if p.Output.String() != want || p.RetryIn != retry {
				r.Errorf("%q, retry in %v; want %q, %v", p.Output, p.RetryIn, want, retry)
			}
		}
		for _, retry := range []time.Duration{5, 10, 30, 60, 60} {
			poll(s, time.Second, "", retry*time.Second)
		}
		time.AfterFunc(time.Second, func() { _, _ = s.Write(context.Background(), []byte("one\n")) })
		poll(s, time.Minute, "one\n", 5*time.Second)
		poll(s, 0, "", 5*time.Second)
		_, err := s.Write(r.Context(), []byte("two\n"))
		r.ok(err)
		synctest.Wait()

		r.reopen() // and the next life knows what has been handed out
		s = r.again(s)
		poll(s, 0, "two\n", 5*time.Second)
		time.AfterFunc(time.Second, func() { _ = s.CloseStdin(context.Background()) })
		poll(s, time.Minute, "", 0)
		r.events(0) // the poll saw the end

		from := int64(2)
		p, err := s.Poll(r.Context(), PollOptions{Offset: &from, Max: 2})
		r.ok(err)
		if p.Output.Head != "e\n" || p.Output.Tail != "o\n" || p.Output.Omitted != 2 || p.Offset != 2 || p.Next != 8 {
			r.Errorf("%+v", p)
		}
	})
}

// An end that everybody who waited for it gave up on is an event after all.
func TestEventOwed(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		over, another := s.expectEnd(), s.expectEnd()
		time.Sleep(time.Hour)
		r.events(0)
		over(true)
		r.events(0)
		another(true)
		r.events(1)

		s = r.begin("fail", Options{Background: true, NotifyOnExit: true})
		over, another = s.expectEnd(), s.expectEnd()
		time.Sleep(time.Hour)
		over(false)
		another(true)
		r.events(1)
	})
}

// An end that is owed to a call when the gateway dies is an event in the next
// life; one that a call saw is none.
func TestEventOwedAcrossLives(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		s.expectEnd() // never over: it dies with the gateway
		seen := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		over := seen.expectEnd()
		time.Sleep(time.Hour)
		over(false)
		r.events(0)
		for range 3 {
			r.reopen()
			r.events(1)
		}
		if e := r.seen()[0]; e.SessionID != s.ID() || e.Tail == "" {
			r.Errorf("%+v", e)
		}
	})
}

// An event that cannot be written now is written later.
func TestEventOwedDiskFull(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		over := s.expectEnd()
		time.Sleep(time.Hour)
		repair := r.fillDisk()
		over(true)
		r.events(0)
		repair()
		time.Sleep(10 * time.Second)
		r.events(1)
	})
}

// Watch does not take the end from waiting calls.
func TestWatch(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("fail", Options{Background: true, NotifyOnExit: true})
		r.ok(s.Watch(r.Context()))
		r.events(1)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := r.begin("work", Options{Background: true}).Watch(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("%v", err)
		}
	})
}

func TestEventsPulled(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.m.events.maximum = 2
		got := make(chan Events, 1)
		go func() {
			e, _ := r.m.Events(context.Background(), "", -1)
			got <- e
		}()
		synctest.Wait()
		r.begin("true", Options{Background: true, NotifyOnExit: true})
		if e := <-got; len(e.Events) != 1 || e.Next != 1 || e.Missed || e.Events[0].Wake {
			r.Errorf("%+v", e)
		}
		for range 3 {
			r.begin("greet", Options{Background: true, NotifyOnExit: true})
		}
		r.begin("greet", Options{Background: true}) // without notification
		e, err := r.m.Events(r.Context(), "", 0)
		r.ok(err)
		if !e.Missed || e.Next != 4 || e.Events[len(e.Events)-1].Seq != 4 {
			r.Errorf("%+v", e)
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if e, err := r.m.Events(ctx, "other", 3); !errors.Is(err, context.DeadlineExceeded) || len(e.Events) != 0 {
			r.Errorf("of another agent: %+v, %v", e, err)
		}
		r.reopen()
		if last := r.m.LastEvent(); last != 4 {
			r.Errorf("the last event is %d in the next life", last)
		}
	})
}

// A journal that was written anew has the last events alone, and an event of
// which the line was written twice is one.
func TestEventsOfTheJournal(t *testing.T) {
	m := replayed()
	m.replay(line{Op: opSeq, Offset: 9})
	for _, seq := range []int64{8, 9, 9, 10} {
		m.replay(line{Op: opEvent, Event: &Event{Seq: seq}})
	}
	for after, want := range map[int64]struct {
		events int
		missed bool
	}{0: {3, true}, 6: {3, true}, 7: {3, false}, 9: {1, false}, 10: {0, false}, 11: {0, true}, 500: {0, true}} {
		if got, _ := m.events.after("", after); len(got.Events) != want.events || got.Missed != want.missed {
			t.Errorf("after %d: %d events, missed %t", after, len(got.Events), got.Missed)
		}
	}
}

func TestWaitFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.x.Programs["server"] = func(o *fakeexec.IO) int {
			for _, text := range []string{"starting\n", "list", "ening on :80", "80\n", "gone\n"} {
				time.Sleep(time.Second)
				if _, err := io.WriteString(o.Stdout, text); err != nil {
					return 1
				}
			}
			return 0
		}
		s := r.begin("server", Options{Background: true})
		wait := func(o WaitOptions) Waited {
			r.Helper()
			w, err := s.WaitFor(r.Context(), o)
			r.ok(err)
			return w
		}
		if w := wait(WaitOptions{Output: true, Timeout: time.Millisecond}); w.Met != MetNothing || w.Status.State != Running {
			r.Errorf("%+v", w)
		}
		if w := wait(WaitOptions{Output: true}); w.Met != MetOutput || w.Offset != 0 || w.Next != 9 {
			r.Errorf("%+v", w)
		}
		if w := wait(WaitOptions{Pattern: regexp.MustCompile(`listening on :(\d{4})`)}); w.Met != MetPattern || w.Match != "listening on :8080" || w.Offset != 9 || w.Next != 27 {
			r.Errorf("%+v", w)
		}
		from := int64(27)
		if w := wait(WaitOptions{Pattern: regexp.MustCompile(`listening`), Offset: &from}); w.Met != MetExit || w.Status.Exit.Code != 0 {
			r.Errorf("%+v", w)
		}
		if w := wait(WaitOptions{}); w.Met != MetExit {
			r.Errorf("%+v", w)
		}
	})
}

func TestWaitingForInput(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("cat", Options{Command: corral.Command{Stdin: true}, Background: true})
		expect := func(after time.Duration, want bool) {
			r.Helper()
			time.Sleep(after)
			synctest.Wait()
			if st := s.Status(r.Context()); st.WaitingForInput != want {
				r.Errorf("%+v", st)
			}
		}
		expect(time.Second, false)
		expect(InputIdle, true)
		_, err := s.Write(r.Context(), []byte("a line\n"))
		r.ok(err)
		expect(2*time.Second, false) // it may be working
		expect(2*time.Second, false)
		_, err = s.Write(r.Context(), []byte("name? "))
		r.ok(err)
		expect(0, false)
		expect(2*time.Second, true)
		for output, prompt := range map[string]bool{
			"\r\n\x1b[?2004l\r":                          false, // bash has read a command
			"\x1b[32mdone\n\x1b[0m\x1b[K":                false,
			"done\n\x1b]0;title\x07\x1b(B\x1b>\x1b[?25h": false,
			"\n" + strings.Repeat("\x1b[0m", 70):         false, // nothing in sight
			"\n\x1b[?2004h\x1b[1m$ \x1b[0m\x1b[K":        true,
			"\n\x1b[5;3H\x1b[?25h":                       true, // the cursor of a full screen
			"\n\x1b]0;title\x07\x1b[":                    true,
		} {
			_, err = s.Write(r.Context(), []byte(output))
			r.ok(err)
			expect(0, false)
			time.Sleep(2 * time.Second)
			if st := s.Status(r.Context()); st.WaitingForInput != prompt {
				r.Errorf("after %q: waiting %v", output, st.WaitingForInput)
			}
		}
		r.ok(s.Discard(r.Context()))
	})
}

// The terminal's modes decide what is typed, and queries are answered once.
func TestTerminal(t *testing.T) {
	inBubble(t, func(r *rig) {
		typed := make(chan string, 100)
		next := make(chan string)
		r.x.Programs["editor"] = func(o *fakeexec.IO) int {
			go func() {
				buf := make([]byte, 100)
				for {
					n, err := o.Stdin.Read(buf)
					if err != nil {
						return
					}
					typed <- string(buf[:n])
				}
			}()
			for {
				select {
				case text := <-next:
					_, _ = io.WriteString(o.Stdout, text)
				case <-o.Context.Done():
					return 0
				}
			}
		}
		say := func(text string) { next <- text; synctest.Wait() }
		expect := func(want string) {
			r.Helper()
			synctest.Wait()
			got := ""
			for len(typed) > 0 {
				got += <-typed
			}
			if got != want {
				r.Errorf("typed %q, want %q", got, want)
			}
		}
		up := func(s *Session) {
			r.Helper()
			_, _, err := s.SendKeys(r.Context(), keys.Request{Keys: []string{"Up"}})
			r.ok(err)
		}
		s := r.begin("editor", Options{Command: corral.Command{TTY: &corral.Size{}}, Background: true})
		up(s)
		expect("\x1b[A")
		say("\x1b[?1h\x1b[6n")
		expect("\x1b[1;1R")
		up(s)
		expect("\x1bOA")
		detach := s.AttachTerminal()
		say("\x1b[6n")
		expect("") // the terminal answers
		detach()

		_, warnings, err := s.Paste(r.Context(), "x\x1b[201~y", true)
		r.ok(err)
		if len(warnings) != 1 {
			r.Errorf("%q", warnings)
		}
		expect("\x1b[200~x␛[201~y\x1b[201~")
		say("\x1b[?2004h")
		if _, warnings, err = s.Paste(r.Context(), "x", true); err != nil || len(warnings) != 0 {
			r.Errorf("%q, %v", warnings, err)
		}
		expect("\x1b[200~x\x1b[201~")
		r.ok(s.Submit(r.Context()))
		expect("\r")

		time.Sleep(time.Minute)
		r.reopen()
		s = r.again(s)
		expect("") // nothing is answered twice
		up(s)
		expect("\x1bOA")
		r.ok(s.Discard(r.Context()))
	})
}

// memLog is a log in memory that may have lost its middle.
type memLog struct {
	text             string
	gapStart, gapEnd int64
}

func (l memLog) Stat(context.Context) (corral.LogStat, error) {
	return corral.LogStat{Size: int64(len(l.text)), GapStart: l.gapStart, GapEnd: l.gapEnd, Ended: true}, nil
}

func (l memLog) Read(_ context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if off >= l.gapStart && off < l.gapEnd {
		off = l.gapEnd
	}
	if off >= int64(len(l.text)) {
		return corral.Chunk{}, io.EOF
	}
	end := int64(len(l.text))
	if off < l.gapStart {
		end = l.gapStart
	}
	n := copy(buf[:min(len(buf), 7)], l.text[off:end]) // in small pieces
	return corral.Chunk{Offset: off, Stream: corral.Stdout, Data: buf[:n]}, nil
}

func TestLines(t *testing.T) {
	at := func(n int) *int { return &n }
	numbered := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	for _, tc := range []struct {
		name          string
		log           memLog
		offset, limit *int
		want          Lines
	}{
		{"nothing", memLog{}, nil, nil, Lines{}},
		{"all", memLog{text: "a\nb\n"}, nil, nil, Lines{Text: "a\nb\n", Count: 2, Total: 2}},
		{"an open line", memLog{text: "a\nb"}, nil, nil, Lines{Text: "a\nb", Count: 2, Total: 2}},
		{"empty lines", memLog{text: "\n\n"}, at(1), nil, Lines{Text: "\n", From: 1, Count: 1, Total: 2}},
		{"the last 200", memLog{text: numbered(300)}, nil, nil, Lines{Text: numbered(300)[len(numbered(100)):], From: 100, Count: 200, Total: 300, Default: true}},
		{"offset", memLog{text: numbered(12)}, at(10), nil, Lines{Text: "line 10\nline 11\n", From: 10, Count: 2, Total: 12}},
		{"limit", memLog{text: numbered(12)}, nil, at(1), Lines{Text: "line 11\n", From: 11, Count: 1, Total: 12}},
		{"both", memLog{text: numbered(12)}, at(3), at(2), Lines{Text: "line 3\nline 4\n", From: 3, Count: 2, Total: 12}},
		{"behind the end", memLog{text: numbered(12)}, at(99), at(2), Lines{From: 12, Total: 12}},
		{"no lines", memLog{text: numbered(12)}, at(3), at(0), Lines{From: 3, Total: 12}},
		{"not UTF-8", memLog{text: "\xff\n"}, nil, nil, Lines{Text: "\ufffd\n", Count: 1, Total: 1}},
		{"a gap", memLog{text: "one\ntwo\nthree\nfour\n", gapStart: 5, gapEnd: 11}, nil, nil, Lines{
			Text: "one\nt\n[… 6 bytes left out …]\nee\nfour\n", Count: 4, Total: 4, OmittedBytes: 6}},
		{"a gap outside", memLog{text: "one\ntwo\nthree\nfour\n", gapStart: 5, gapEnd: 11}, at(3), nil, Lines{
			Text: "four\n", From: 3, Count: 1, Total: 4, OmittedBytes: 6}},
		{"a gap between lines", memLog{text: "one\ntwo\nthree\n", gapStart: 4, gapEnd: 8}, nil, nil, Lines{
			Text: "one\n[… 4 bytes left out …]\nthree\n", Count: 2, Total: 2, OmittedBytes: 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.OutputBytes = int64(len(tc.log.text))
			got, err := readLog(t.Context(), tc.log, LinesOptions{tc.offset, tc.limit})
			if err != nil || got != tc.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, tc.want)
			}
		})
	}
}

// A window that is too large is cut between lines, if it has any, and can be
// gone on with.
func TestLinesCut(t *testing.T) {
	long := strings.Repeat("x", MaxLinesBytes-3) + "\n"
	log := memLog{text: long + "yyyy\nz\n"}
	got, err := readLog(t.Context(), log, LinesOptions{})
	if err != nil || got.Text != long || got.Count != 1 || !got.Cut {
		t.Errorf("%d bytes, %d lines, cut %v, %v", len(got.Text), got.Count, got.Cut, err)
	}
	next := got.From + got.Count
	if got, err = readLog(t.Context(), log, LinesOptions{Offset: &next}); err != nil || got.Text != "yyyy\nz\n" {
		t.Errorf("%q, %v", got.Text, err)
	}
	got, err = readLog(t.Context(), memLog{text: long + long[:10]}, LinesOptions{})
	if err != nil || !got.Cut && got.Count != 2 {
		t.Errorf("%d bytes, %d lines, cut %v, %v", len(got.Text), got.Count, got.Cut, err)
	}
	got, err = readLog(t.Context(), memLog{text: strings.Repeat("x", 2*MaxLinesBytes)}, LinesOptions{})
	if err != nil || len(got.Text) != MaxLinesBytes || !got.Cut {
		t.Errorf("one endless line: %d bytes, %d lines, cut %v, %v", len(got.Text), got.Count, got.Cut, err)
	}
}

// FuzzLines compares windows with what splitting the whole text gives.
func FuzzLines(f *testing.F) {
	f.Add("a\nb\nc", 1, 1)
	f.Add("\n\n", 0, 5)
	f.Add("", 3, 0)
	f.Fuzz(func(t *testing.T, text string, offset, limit int) {
		if offset < 0 || limit < 0 {
			return
		}
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		got, err := readLog(t.Context(), memLog{text: text}, LinesOptions{&offset, &limit})
		if err != nil || got.Cut {
			t.Fatal(err, got.Cut)
		}
		from := min(offset, len(lines))
		want := lines[from : from+min(limit, len(lines)-from)]
		var d words.Decoder
		text = d.Decode(1, []byte(strings.Join(want, ""))) + d.Flush(1)
		if got.Total != len(lines) || got.From != from || got.Count != len(want) || got.Text != text {
			t.Errorf("%+v, want %d of %d: %q", got, len(want), len(lines), text)
		}
	})
}
