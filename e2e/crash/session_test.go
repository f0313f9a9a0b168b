//go:build e2e

package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// A session is a command over all lives, with what is known of it and what its
// end must be.
type session struct {
	task
	code  int   // exit code; -1: see check
	bytes int64 // of output, if task.Seed is set
	check func(t *testing.T, s *session, output string)

	began   bool
	info    corral.Info
	exit    *corral.Exit // as a gateway told it
	lives   int          // in how many it was started or found running
	written []int        // lines that were taken
}

// newSession makes a session of shell text. That it runs once is seen by a file.
func newSession(id, format string, args ...any) *session {
	s := &session{}
	s.Cmd = corral.Command{ID: id, Shell: "echo ran >>runs/" + id + "; " + fmt.Sprintf(format, args...)}
	return s
}

// printing makes a session that prints n bytes, and pauses after each chunk.
func printing(id string, seed uint64, n, chunk int, pause time.Duration, limit corral.LogLimit) *session {
	s := newSession(id, "./testprog pattern %d %d %d %v; exit 11", n, seed, chunk, pause)
	s.Seed, s.bytes, s.code, s.Cmd.Log = seed, int64(n), 11, limit
	return s
}

// onTerminal is the same on a terminal.
func onTerminal(id string, seed uint64, n, chunk int, pause time.Duration) *session {
	s := newSession(id, "./testprog text %d %d %d %v; exit 12", n, seed, chunk, pause)
	s.Seed, s.bytes, s.code, s.Cmd.TTY = seed, int64(n), 12, &corral.Size{}
	return s
}

// both alternates between the two streams.
func both(id string, n int, pause string) *session {
	s := newSession(id, "i=0; while [ $i -lt %d ]; do echo o$i; echo e$i >&2; sleep %s; i=$((i+1)); done; exit 13", n, pause)
	s.code = 13
	s.check = func(t *testing.T, s *session, output string) {
		var o, e strings.Builder
		for i := range n {
			fmt.Fprintf(&o, "o%d\n", i)
			fmt.Fprintf(&e, "e%d\n", i)
		}
		var got [2]strings.Builder
		for _, l := range strings.SplitAfter(output, "\n") {
			if l != "" {
				got[map[byte]int{'1': 0, '2': 1}[l[0]]].WriteString(l[1:])
			}
		}
		if got[0].String() != o.String() || got[1].String() != e.String() {
			t.Errorf("%s: standard output\n%s\nand error\n%s", s.Cmd.ID, got[0].String(), got[1].String())
		}
	}
	return s
}

// echoing makes a session that prints the lines that are written to it.
func echoing(id string) *session {
	s := newSession(id, "cat; exit 14")
	s.Cmd.Stdin, s.Lines, s.code = true, 1, 14
	s.Cmd.Log = corral.LogLimit{Head: 256 << 20}
	s.check = checkLines
	return s
}

// checkLines demands that every line that was taken is there once, in order,
// and that all else is a line on which a gateway died.
func checkLines(t *testing.T, s *session, output string) {
	next := 0 // of s.written
	last, cut := 0, 0
	for _, l := range strings.Split(output, "\n") {
		n := 0
		if _, err := fmt.Sscanf(l, "<%d:", &n); err != nil || l != line(n) {
			if n > 0 && !strings.HasPrefix(line(n), l) {
				t.Errorf("%s: this is no part of line %d: %.200q", s.Cmd.ID, n, l)
			}
			if l != "" {
				cut++
			}
			continue
		}
		if n <= last {
			t.Errorf("%s: line %d after line %d", s.Cmd.ID, n, last)
		}
		last = n
		if next < len(s.written) && s.written[next] == n {
			next++
		} else if next < len(s.written) && s.written[next] < n {
			t.Fatalf("%s: line %d was taken and is not there; the next is %d", s.Cmd.ID, s.written[next], n)
		}
	}
	if next != len(s.written) {
		t.Errorf("%s: line %d was taken and is not there", s.Cmd.ID, s.written[next])
	}
	if cut > s.lives {
		t.Errorf("%s: %d cut lines in %d lives", s.Cmd.ID, cut, s.lives)
	}
	t.Logf("%s: %d lines taken, %d cut", s.Cmd.ID, len(s.written), cut)
}

// learn takes what a gateway told of the session.
func (s *session) learn(t *testing.T, e event) {
	t.Helper()
	switch e.What {
	case "started":
		s.lives++
		if s.began && (e.Info.PID != s.info.PID || !e.Info.StartedAt.Equal(s.info.StartedAt)) {
			t.Errorf("%s: it was process %d of %v, and is %d of %v", s.Cmd.ID, s.info.PID, s.info.StartedAt, e.Info.PID, e.Info.StartedAt)
		}
		s.began, s.info = true, e.Info
	case "ended":
		s.ended(t, e.Exit)
	case "line":
		s.written = append(s.written, e.Line)
	default:
		if s.exit != nil && strings.HasPrefix(e.Error, "write:") {
			return // as it should be
		}
		t.Errorf("%s: %s: %s", s.Cmd.ID, e.What, e.Error)
	}
}

// ended compares an exit with what is expected, and with what was told before.
func (s *session) ended(t *testing.T, exit corral.Exit) {
	t.Helper()
	if s.exit != nil && (exit.Code != s.exit.Code || exit.Signal != s.exit.Signal || exit.Reason != s.exit.Reason || !exit.EndedAt.Equal(s.exit.EndedAt)) {
		t.Errorf("%s: it ended with %v at %v, and now with %v at %v", s.Cmd.ID, *s.exit, s.exit.EndedAt, exit, exit.EndedAt)
	}
	s.exit = &exit
	if s.code >= 0 && (exit.Code != s.code || exit.Reason != corral.ReasonExited) {
		t.Errorf("%s: %v (%s), want exit code %d", s.Cmd.ID, exit, exit.Reason, s.code)
	}
}

// finish waits for the session's end, checks all of it and forgets it. It
// returns how many bytes of output there were.
func (s *session) finish(ctx context.Context, t *testing.T, p corral.Process) int64 {
	t.Helper()
	exit, err := p.Wait(ctx)
	if err != nil {
		t.Errorf("%s: Wait: %v", s.Cmd.ID, err)
		return 0
	}
	s.ended(t, exit)
	st, err := p.Log().Stat(ctx)
	if err != nil {
		t.Errorf("%s: Stat: %v", s.Cmd.ID, err)
	}
	if s.Seed != 0 {
		s.checkPattern(ctx, t, p.Log(), st)
	}
	if s.check != nil {
		output, err := all(ctx, p.Log(), s.Cmd.ID != "both")
		if err != nil {
			t.Errorf("%s: %v", s.Cmd.ID, err)
		}
		s.check(t, s, output)
	}
	if err := p.Remove(ctx); err != nil {
		t.Errorf("%s: Remove: %v", s.Cmd.ID, err)
	}
	return st.Size
}

func (s *session) checkPattern(ctx context.Context, t *testing.T, log corral.Log, st corral.LogStat) {
	t.Helper()
	n, err := s.follow(ctx, log, 0)
	if err != nil {
		t.Errorf("%s: %v", s.Cmd.ID, err)
	}
	want := corral.LogStat{Size: s.bytes, Ended: true}
	if lim := s.Cmd.Log; lim.Tail > 0 && s.bytes > lim.Head+lim.Tail {
		want.GapStart, want.GapEnd = lim.Head, s.bytes-lim.Tail
	}
	if st != want || n != st.Size-st.Gap() {
		t.Errorf("%s: %+v and %d bytes read, want %+v", s.Cmd.ID, st, n, want)
	}
}

// all reads a log to its end; if the streams are not to be merged each line has
// the number of its stream before it.
func all(ctx context.Context, log corral.Log, merged bool) (string, error) {
	var out [3]bytes.Buffer
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		c, err := log.Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if c.Offset != off {
			return "", fmt.Errorf("bytes %d to %d are missing", off, c.Offset)
		}
		out[c.Stream].Write(c.Data)
		off = c.Next()
	}
	if merged {
		return out[corral.Stdout].String(), nil
	}
	var lines strings.Builder
	for stream := 1; stream <= 2; stream++ {
		for _, l := range strings.SplitAfter(out[stream].String(), "\n") {
			if l != "" {
				fmt.Fprintf(&lines, "%d%s", stream, l)
			}
		}
	}
	return lines.String(), nil
}
