package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/state/journal"
)

// vector is an observed answer of the tools that users come from.
type vector struct {
	ID    string `json:"id"`
	Fn    string `json:"fn"`
	Input struct {
		Command string `json:"command"`
		Lines   int    `json:"lines"`
		Offset  *int   `json:"offset"`
		Limit   *int   `json:"limit"`
		Empty   int    `json:"consecutive_empty_polls"`
	} `json:"input"`
	Expect struct {
		Name  string `json:"name"`
		Lines int    `json:"lines_returned"`
		From  int    `json:"from"` // from 1
		Retry int64  `json:"retryInMs"`
	} `json:"expect"`
}

// known fails if there is something in a row that no field is for, so that no check
// looks at it.
func (v vector) known(t *testing.T, text []byte) {
	t.Helper()
	var raw struct{ Input, Expect json.RawMessage }
	err := json.Unmarshal(text, &raw)
	for part, to := range map[*json.RawMessage]any{&raw.Input: &v.Input, &raw.Expect: &v.Expect} {
		d := json.NewDecoder(bytes.NewReader(*part))
		d.DisallowUnknownFields()
		err = errors.Join(err, d.Decode(to))
	}
	if err != nil {
		t.Errorf("%s: %v", v.ID, err)
	}
}

// notHere are the rows that nothing here checks, and why.
var notHere = map[string]string{
	"PR-001": "of a log both the beginning and the end are kept, not its last 10 bytes: see TestVectors of package tool and internal/warden/outlog",
	"PR-003": "a log is not drained by those who read it: reads are by offset, and bounded by the reader",
	"PR-011": "the text is that of the tool process: see package tool",
	"PR-023": "the text is that of the tool process: see package tool",
	"PR-025": "the text is that of the tool process: see package tool",
}

func TestVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/process-registry.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows, tested := map[string]bool{}, 0
	for text := range bytes.Lines(b) {
		var v vector
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		rows[v.ID] = true
		if notHere[v.ID] != "" {
			continue
		}
		v.known(t, text)
		switch v.Fn {
		case "derive_name":
			if got := Name(v.Input.Command); got != v.Expect.Name {
				t.Errorf("%s: %q is called %q, want %q", v.ID, v.Input.Command, got, v.Expect.Name)
			}
		case "log_slice":
			log := memLog{text: strings.Repeat("x\n", v.Input.Lines)}
			got, err := readLog(t.Context(), log, LinesOptions{v.Input.Offset, v.Input.Limit})
			if err != nil || got.Count != v.Expect.Lines || got.From+1 != v.Expect.From {
				t.Errorf("%s: %d lines from %d, %v; want %d from %d", v.ID, got.Count, got.From+1, err, v.Expect.Lines, v.Expect.From)
			}
		case "poll_backoff":
			if got := pollBackoff(v.Input.Empty).Milliseconds(); got != v.Expect.Retry {
				t.Errorf("%s: %d ms, want %d", v.ID, got, v.Expect.Retry)
			}
		default:
			t.Errorf("%s: nothing checks %s, and no reason is listed", v.ID, v.Fn)
		}
		tested++
	}
	if want := len(rows) - len(notHere); tested != want || tested == 0 {
		t.Errorf("%d of %d rows were checked, and %d are listed as not to be", tested, len(rows), len(notHere))
	}
	for id := range notHere {
		if !rows[id] {
			t.Errorf("%s is listed, and there is no such row", id)
		}
	}
}

func TestName(t *testing.T) {
	for _, tc := range []struct{ command, want string }{
		{"", ""},
		{"make", "make"},
		{"git -C /src status", "git /src"},
		{"ls -la", "ls -la"},
		{"ls -la -h", "ls -la"},
		{"a\x1b[31mb\tc\nd", "a [31mb c"},
		{"'", ""},
		{"cat " + strings.Repeat("é", 60), "cat " + strings.Repeat("é", 23) + "…" + strings.Repeat("é", 24)},
	} {
		if got := Name(tc.command); got != tc.want {
			t.Errorf("%q is called %q, want %q", tc.command, got, tc.want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("a 'b c' d")
	f.Fuzz(func(t *testing.T, command string) {
		if n := utf8.RuneCountInString(Name(command)); n > 2*maxName+1 {
			t.Errorf("%d characters", n)
		}
	})
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if err := corral.ValidateID(id); err != nil || seen[id] || strings.Count(id, "-") != 2 {
			t.Fatalf("%q, %v", id, err)
		}
		seen[id] = true
	}
	for _, list := range [][]string{adjectiveList, nounList} {
		if len(list) < 60 || len(list) > 256 {
			t.Errorf("%d words", len(list))
		}
	}
}

func TestQuote(t *testing.T) {
	for _, tc := range []struct {
		cmd  corral.Command
		want string
	}{
		{corral.Command{Shell: "a  b"}, "a  b"},
		{corral.Command{Args: []string{"printf", "%s\n", "it's", "", "a b", "x=1"}}, "printf '%s\n' 'it'\\''s' '' 'a b' x=1"},
	} {
		if got := text(tc.cmd); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestTooMuch(t *testing.T) {
	now := time.Now()
	at := func(agent string, age time.Duration, bytes int64) remnant {
		return remnant{Session: &Session{start: begun{Origin: origin.Origin{Agent: agent}, Key: agent}}, at: now.Add(-age), bytes: bytes}
	}
	keep := Retention{Count: 2, Bytes: 100, Age: time.Hour}
	for _, tc := range []struct {
		name string
		list []remnant
		want []int
	}{
		{"nothing", nil, nil},
		{"all fit", []remnant{at("a", 0, 50), at("a", time.Minute, 50), at("b", time.Hour, 0)}, nil},
		{"one agent's count", []remnant{at("a", 1, 0), at("b", 2, 0), at("a", 3, 0), at("a", 4, 0), at("b", 5, 0)}, []int{3}},
		{"bytes of all", []remnant{at("a", 1, 60), at("b", 2, 60), at("c", 3, 40)}, []int{1}},
		{"bytes of one key", []remnant{at("a", 1, 40), at("a", 2, 50), at("a", 3, 0), at("b", 4, 20)}, []int{2, 1}},
		{"age", []remnant{at("a", 1, 0), at("b", 2*time.Hour, 0)}, []int{1}},
	} {
		var want []*Session
		for _, i := range tc.want {
			want = append(want, tc.list[i].Session)
		}
		got := tooMuch(tc.list, keep, now)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d go, want %d", tc.name, len(got), len(want))
		}
	}
}

func TestRetention(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.m.cfg.Retention.Count = 1
		first := r.begin("greet", Options{Background: true})
		time.Sleep(time.Minute)
		waiting := r.begin("sleep", Options{Background: true})
		second := r.begin("greet", Options{Background: true})
		time.Sleep(5 * time.Second)
		for _, s := range []*Session{waiting, second} {
			if _, err := r.agent().Session(s.ID()); err != nil {
				r.Error(err)
			}
		}
		if _, err := r.agent().Session(first.ID()); !errors.Is(err, corral.ErrNotFound) {
			r.Errorf("the oldest: %v", err)
		}
		if _, err := r.x.Attach(r.Context(), first.ID()); !errors.Is(err, corral.ErrNotFound) {
			r.Errorf("its process: %v", err)
		}
		time.Sleep(25 * time.Hour)
		if list := r.agent().List(r.Context()); len(list) != 1 || list[0].ID != waiting.ID() {
			r.Errorf("%+v", list)
		}
		r.ok(waiting.Discard(r.Context()))
	})
}

func TestOneManager(t *testing.T) {
	inBubble(t, func(r *rig) {
		if _, err := Open(r.Context(), r.cfg); !errors.Is(err, corral.ErrUnavailable) {
			r.Errorf("two at a time: %v", err)
		}
	})
}

func TestCompact(t *testing.T) {
	inBubble(t, func(r *rig) {
		keep := r.begin("fail", Options{Command: corral.Command{ID: "mine"}, Background: true, NotifyOnExit: true})
		big := strings.Repeat("# ", 10_000)
		for range 66 {
			r.x.Programs["true "+big] = r.x.Programs["true"]
			r.ok(r.begin("true "+big, Options{Background: true, NotifyOnExit: true}).Clear(r.Context()))
		}
		size := func() int64 {
			info, err := os.Stat(r.cfg.Dir + "/" + journalName)
			r.ok(err)
			return info.Size()
		}
		if n := size(); !journal.Grown(n, 0) {
			r.Fatalf("%d bytes are too few for this test", n)
		}
		r.reopen()
		if n := size(); n > 50_000 {
			r.Errorf("%d bytes are left", n)
		}
		r.events(66)
		r.status(r.again(keep), Running, "")
		time.Sleep(time.Hour)
		r.reopen()
		r.events(67)
		r.status(r.again(keep), Completed, "")
	})
}

// A line that has no JSON keeps no other from being written.
func TestCompactLeavesOutWhatHasNoJSON(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		r.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		x := r.useNodes(corral.HostNode, "n1", "odd")
		x.claim.Store(&claim{"n1", corral.Info{Host: corral.HostNode, Node: "odd", StartedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}})
		odd := r.begin("sleep", Options{Background: true})
		x.claims("n1", corral.HostNode, "odd")
		other := r.begin("sleep", Options{Background: true})
		r.ok(r.m.journal.rewrite(r.m.snapshot))
		if text := log.String(); !strings.Contains(text, "a line is left out of the table of sessions") || !strings.Contains(text, odd.ID()) {
			r.Errorf("the log: %s", text)
		}
		r.reopen()
		r.status(r.again(odd), Running, "")
		r.status(r.again(other), Running, "")
	})
}

// Nothing is lost or comes back when the table is written anew while it is used.
func TestCompactWhileUsed(t *testing.T) {
	inBubble(t, func(r *rig) {
		stop := make(chan struct{})
		var owned sync.WaitGroup
		owned.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					if err := r.m.journal.rewrite(r.m.snapshot); err != nil {
						r.Error(err)
					}
					if time.Sleep(time.Millisecond); n > 300 {
						time.Sleep(time.Second)
					}
				}
			}
		})
		want := map[string]bool{}
		var mu sync.Mutex
		for w := range 8 {
			owned.Go(func() {
				for k := range 40 {
					o := Options{Command: corral.Command{Shell: "fail"}, Background: k%3 > 0, NotifyOnExit: true}
					s, err := r.agent().Begin(r.Context(), o)
					if err != nil {
						r.Error(err)
						return
					}
					time.Sleep(time.Duration(w) * time.Millisecond)
					if k%2 == 0 {
						if err := s.Discard(r.Context()); err != nil {
							r.Error(err)
						}
						continue
					}
					mu.Lock()
					want[s.ID()] = true
					mu.Unlock()
				}
			})
		}
		time.Sleep(2 * time.Minute)
		close(stop)
		owned.Wait()
		before := len(r.seen())
		r.reopen()
		synctest.Wait()
		got := map[string]bool{}
		for _, st := range r.agent().List(r.Context()) {
			got[st.ID] = true
			if st.State != Completed {
				r.Errorf("%+v", st)
			}
		}
		if !maps.Equal(got, want) {
			r.Errorf("%d sessions, want %d", len(got), len(want))
		}
		if after := len(r.seen()); before == 0 || after < before {
			r.Errorf("%d events, then %d", before, after)
		}
	})
}

// FuzzReplay: whatever is in the table, it is read, and what is read can be
// written and read again.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"op":"start","id":"a","start":{"agent":"main","command":"x"}}` + "\n" + `{"op":"end","id":"a","end":{"status":"completed"}}`))
	f.Add([]byte(`{"op":"seq","offset":9}` + "\n" + `{"op":"event","event":{"seq":3}}`))
	f.Add([]byte(`{"op":"end","id":"a"`))
	f.Fuzz(func(t *testing.T, table []byte) {
		read := func(b []byte) *Manager {
			m := replayed()
			in := journal.Reader{Each: decoded(m.replay), Damage: &journal.Damage{}}
			if err := in.Read(bytes.NewReader(b), int64(len(b)), true); err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := read(table)
		var again []byte
		for _, l := range m.snapshot() {
			b, err := l.encode()
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, b...)
		}
		m2 := read(again)
		if len(m2.sessions) != len(m.sessions) || m2.LastEvent() != m.LastEvent() {
			t.Errorf("%d sessions and event %d, then %d and %d", len(m.sessions), m.LastEvent(), len(m2.sessions), m2.LastEvent())
		}
		for id, s := range m.sessions {
			if s2 := m2.sessions[id]; s2 == nil || s2.hasEnded() != s.hasEnded() || s2.background != s.background || s2.polled != s.polled {
				t.Errorf("%s is not the same", id)
			}
		}
	})
}

// A session that cannot be removed, as on a full disk, stays, and can be removed later.
func TestRemoveOnAFullDisk(t *testing.T) {
	inBubble(t, func(r *rig) {
		s := r.begin("true", Options{Background: true})
		r.m.journal.Fail(func(string) error { return syscall.ENOSPC })
		if err := s.Remove(r.Context()); !errors.Is(err, corral.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Remove: %v", err)
		}
		if _, err := r.agent().Session(s.ID()); err != nil {
			t.Errorf("it is gone: %v", err)
		}
		r.m.journal.Fail(nil)
		r.ok(s.Remove(r.Context()))
		if _, err := r.agent().Session(s.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
	})
}
