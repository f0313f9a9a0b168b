package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/session"
)

func TestDetachKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-a,d": "\x01d", "Ctrl-[": "\x1b", "ctrl-@,ctrl-_": "\x00\x1f", "~,.": "~.", "none": "",
	} {
		var k detachKeys
		if err := k.Set(text); err != nil || string(k.sequence) != want || k.String() != text {
			t.Errorf("%q: %q, %v; want %q", text, k.sequence, err, want)
		}
	}
	for _, text := range []string{"", ",", "ctrl-", "ctrl-ab", "ctrl-1", "ab", "é", " ", "ctrl-p,", "a,a,a,a,a,a,a,a,a"} {
		if err := new(detachKeys).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestDetacher(t *testing.T) {
	for _, tc := range []struct {
		sequence, in string // in: chunks with | between
		out          string
		detached     bool
	}{
		{"PQ", "hello", "hello", false},
		{"PQ", "aPQb", "a", true},
		{"PQ", "aP|Qb", "a", true},
		{"PQ", "aP|b", "aPb", false},
		{"PQ", "PP|Q", "P", true},
		{"PQ", "P", "", false}, // held until the next key
		{"PPQ", "PPPQ", "P", true},
		{"PPQ", "PP|x|PPQ", "PPx", true},
		{"ABAC", "ABABAC", "AB", true},
		{"", "PQ", "PQ", false},
	} {
		d := detacher{sequence: []byte(tc.sequence)}
		var out []byte
		detached := false
		for chunk := range strings.SplitSeq(tc.in, "|") {
			got, now := d.pass([]byte(chunk))
			out, detached = append(out, got...), now
			if now {
				break
			}
		}
		if string(out) != tc.out || detached != tc.detached {
			t.Errorf("%q in %q: %q, %v; want %q, %v", tc.sequence, tc.in, out, detached, tc.out, tc.detached)
		}
	}
}

// FuzzDetacher: what is typed is passed on as it is, up to where the keys are
// first, and all but what may be the beginning of them.
func FuzzDetacher(f *testing.F) {
	f.Add([]byte("ab"), []byte("xaabab"), uint8(2))
	f.Add([]byte("aab"), []byte("aaab"), uint8(1))
	f.Fuzz(func(t *testing.T, sequence, input []byte, step uint8) {
		if len(sequence) == 0 || len(sequence) > maxDetachKeys || step == 0 {
			return
		}
		d := detacher{sequence: sequence}
		var out []byte
		detached := false
		for rest := input; len(rest) > 0 && !detached; {
			n := min(int(step), len(rest))
			var got []byte
			got, detached = d.pass(rest[:n])
			out, rest = append(out, got...), rest[n:]
		}
		at := bytes.Index(input, sequence)
		switch {
		case detached != (at >= 0):
			t.Fatalf("%q in %q: detached %v", sequence, input, detached)
		case detached && string(out) != string(input[:at]):
			t.Fatalf("%q in %q: %q was passed on", sequence, input, out)
		case !detached && (!bytes.HasPrefix(input, out) || len(input)-len(out) >= len(sequence)):
			t.Fatalf("%q in %q: %q was passed on", sequence, input, out)
		}
	})
}

func TestSessionTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	exit := func(code int, sig corral.Signal) *session.Exit {
		return &session.Exit{Exit: corral.Exit{Code: code, Signal: sig}}
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	end := func(d time.Duration) *time.Time { e := ago(d); return &e }
	list := []session.Status{
		{ID: "brave-otter-k3x9abcd", Agent: "main", State: session.Running, Host: "gateway", StartedAt: ago(90 * time.Second), Name: "make test"},
		{ID: "abcdefghijklmnopqrstuvwxyz", Agent: "main", State: session.Running, WaitingForInput: true, Host: "sandbox", StartedAt: ago(3 * time.Hour), Name: "python3\x1b[31m\n évil"},
		{ID: "abcdefghijklmxxxxxxxxxxxxx", Agent: "b", State: session.Completed, Exit: exit(0, 0), EndedAt: end(time.Second), Host: "node", Node: "n1", StartedAt: ago(1500 * time.Millisecond), Name: "true"},
		{ID: "c", Agent: "b", State: session.Completed, Exit: exit(3, 0), EndedAt: end(0), Host: "gateway", StartedAt: ago(49 * time.Hour), Name: "日本語のコマンド"},
		{ID: "d", Agent: "b", State: session.Completed, Exit: exit(-1, corral.SIGKILL), EndedAt: end(0), Host: "gateway", StartedAt: ago(time.Minute), Name: "sleep"},
		{ID: "e", Agent: "b", State: session.Failed, Reason: session.ReasonTimeout, Exit: exit(-1, corral.SIGTERM), EndedAt: end(0), Host: "gateway", StartedAt: ago(time.Minute)},
		{ID: "f", Agent: "b", State: session.Unknown, Reason: session.ReasonLost, Host: "gateway", StartedAt: ago(time.Minute), Name: "x"},
		{ID: "g", Agent: "b", State: session.Running, Unreachable: true, Host: "sandbox", StartedAt: ago(time.Minute), Name: "y"},
		{ID: "h", Agent: "b", State: session.Failed, Reason: session.ReasonNotStarted},
	}
	check := func(file, got string) {
		t.Helper()
		path := filepath.Join("testdata", "golden", file)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: %s\n%s", file, d, got)
		}
	}
	check("ps.txt", sessionTable(list, list, false, now).text(0, false))
	check("ps-agents-60.txt", sessionTable(list, list, true, now).text(60, false))
	check("ps-colours.txt", sessionTable(list, list[:3], false, now).text(80, true))
	check("ps-empty.txt", sessionTable(nil, nil, false, now).text(80, false))
	for width := 1; width < 90; width++ {
		for line := range strings.Lines(sessionTable(list, list, true, now).text(width, false)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("a line of %d characters on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1234 * time.Millisecond: "1.2s", 9999 * time.Millisecond: "9.9s", 59 * time.Second: "59s",
		time.Minute: "1m", 61 * time.Second: "1m1s", time.Hour: "1h", 3*time.Hour + 59*time.Minute: "3h59m", 24 * time.Hour: "1d", 50 * time.Hour: "2d2h",
	} {
		if got := ageText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	list := []session.Status{{ID: "abc"}, {ID: "abcd"}, {ID: "abx"}, {ID: "q"}}
	for id, want := range map[string]string{"abc": "abc", "abcd": "abcd", "abx": "abx", "q": "q", "ab": "", "z": "", "abcde": ""} {
		got, err := match(list, id, "main")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	if _, err := match(list, "ab", "main"); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "abc, abcd, abx") {
		t.Errorf("%v", err)
	}
	if _, err := match(list, "z", "main"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// textLog is a log of which bytes [gapStart, gapEnd) were dropped.
type textLog struct {
	text             string
	gapStart, gapEnd int64
	reads            int64 // bytes
}

func (l *textLog) Stat(context.Context) (corral.LogStat, error) {
	return corral.LogStat{Size: int64(len(l.text)), GapStart: l.gapStart, GapEnd: l.gapEnd}, nil
}

func (l *textLog) Read(_ context.Context, off int64, buf []byte) (corral.Chunk, error) {
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
	n := copy(buf, l.text[off:end])
	l.reads += int64(n)
	return corral.Chunk{Offset: off, Stream: corral.Stdout, Data: buf[:n]}, nil
}

func TestLastLines(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 5000)
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""}, {"a", 1, "a"}, {"a\n", 1, "a\n"}, {"a\nb", 1, "b"}, {"a\nb\n", 1, "b\n"}, {"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 3, "a\nb\nc\n"}, {"a\nb\nc\n", 9, "a\nb\nc\n"}, {"a\nb\n", 0, ""}, {"\n\n\n", 2, "\n\n"}, {"a\n\n", 1, "\n"},
		{long, 4000, long[100*1000:]}, {long + "end", 1, "end"},
	} {
		log := &textLog{text: tc.text}
		off, err := lastLines(t.Context(), log, tc.n)
		if err != nil || tc.text[off:] != tc.want {
			t.Errorf("the last %d of %d bytes: from %d, %v", tc.n, len(tc.text), off, err)
		}
	}
	// Not all of a long log is read for a few lines, and a gap is no line.
	log := &textLog{text: long}
	if _, err := lastLines(t.Context(), log, 5); err != nil || log.reads > 128<<10 {
		t.Errorf("%d bytes were read, %v", log.reads, err)
	}
	log = &textLog{text: long, gapStart: 250, gapEnd: int64(len(long)) - 50}
	off, err := lastLines(t.Context(), log, 2)
	if err != nil || off != 100 {
		t.Errorf("from %d, %v", off, err)
	}
}

func TestCheckGateway(t *testing.T) {
	r := &daemon.Record{PID: 7, Version: "v1", StartedAt: time.Now()}
	check(t, "none", checkGateway(gatewayState{}, "v1"), doctor.OK, "no gateway runs")
	check(t, "runs", checkGateway(gatewayState{Running: true, Ready: true, Gateway: r}, "v1"), doctor.OK, "pid 7", "answers")
	check(t, "other version", checkGateway(gatewayState{Running: true, Ready: true, Gateway: r}, "v2"), doctor.Warn, "corral v1", "corral v2")
	check(t, "draining", checkGateway(gatewayState{Running: true, Gateway: r, Error: "draining"}, "v1"), doctor.Fail, "draining")
	on := &daemon.Record{Sandbox: daemon.ModeAll}
	check(t, "its sandbox", checkSandboxOf(gatewayState{Ready: true, Gateway: on}, daemon.ModeOff, false), doctor.OK, "of the gateway that runs: on")
	check(t, "its sandbox, off", checkSandboxOf(gatewayState{Ready: true, Gateway: &daemon.Record{Sandbox: daemon.ModeOff}}, daemon.ModeAll, false), doctor.Warn,
		"of the gateway that runs: off", "start the gateway with --sandbox all", "Here it is all")
	check(t, "no gateway's sandbox", checkSandboxOf(gatewayState{}, daemon.ModeAll, false), doctor.OK)
	check(t, "dead", checkGateway(gatewayState{Error: "refused"}, "v1"), doctor.Fail, "refused")
}

// A notice is one line for people, and in a result a field and no warning.
func TestWarnAll(t *testing.T) {
	info := corral.Info{Notice: "the sandbox is off; 2 variables left out: A, B", Warnings: []string{"C was left out."}}
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	a.warnAll(info)
	if want := "warning: " + info.Notice + "\nwarning: C was left out.\n"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
	var kept []string
	a.kept = &kept
	a.warnAll(info)
	if !slices.Equal(kept, info.Warnings) {
		t.Errorf("%q", kept)
	}
}

func TestSessionEnd(t *testing.T) {
	exit := func(code int, sig corral.Signal, r corral.Reason) *session.Exit {
		return &session.Exit{Exit: corral.Exit{Code: code, Signal: sig, Reason: r}}
	}
	for _, tc := range []struct {
		status session.Status
		code   int
	}{
		{session.Status{State: session.Completed, Exit: exit(0, 0, corral.ReasonExited)}, 0},
		{session.Status{State: session.Completed, Exit: exit(9, 0, corral.ReasonExited)}, 9},
		{session.Status{State: session.Completed, Exit: exit(-1, 9, corral.ReasonExited)}, 137},
		{session.Status{State: session.Failed, Reason: session.ReasonTimeout, Exit: exit(-1, 15, corral.ReasonTimeout)}, 124},
		{session.Status{State: session.Failed, Reason: session.ReasonOOM, Exit: exit(-1, 9, corral.ReasonOOM)}, 137},
		{session.Status{State: session.Failed, Reason: session.ReasonOOM, Exit: exit(137, 0, corral.ReasonOOM)}, 137},
		{session.Status{State: session.Failed, Reason: session.ReasonKilled, Exit: exit(-1, 15, corral.ReasonExited)}, 143},
		{session.Status{State: session.Failed, Reason: session.ReasonNotStarted}, 125},
		{session.Status{State: session.Unknown, Reason: session.ReasonLost}, 125},
	} {
		if got := exitCode(sessionEnd(tc.status)); got != tc.code {
			t.Errorf("%+v: %d, want %d", tc.status, got, tc.code)
		}
	}
}

func TestShownCommand(t *testing.T) {
	st := session.Status{Command: "bash -c cat", Description: "[background] Wait for input"}
	if text := shownCommand(st); text != "bash -c cat ([background] Wait for input)" {
		t.Errorf("%q", text)
	}
}
