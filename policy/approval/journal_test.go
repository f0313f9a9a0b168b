package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// history makes a desk do a bit of everything. It returns, for each step, the size of the
// journal after it and the states that the desk had reported by then.
func history(t *testing.T, dir string) (steps []int64, states []map[string]State) {
	d := openDesk(t, dir)
	now := map[string]State{}
	note := func(r Record, err error) Record {
		t.Helper()
		ok(t, err)
		info, err := os.Stat(filepath.Join(dir, journalName))
		ok(t, err)
		now[r.ID] = r.State
		steps, states = append(steps, info.Size()), append(states, maps.Clone(now))
		return r
	}
	var records []Record
	for i := range 3 {
		records = append(records, note(d.Ask(t.Context(), request(fmt.Sprint("x ", i)))))
	}
	note(d.Answer(t.Context(), records[0].ID, Answer{Decision: AllowOnce, By: "anna"}))
	note(d.Answer(t.Context(), records[1].ID, Answer{Decision: Deny, By: "ben"}))
	note(d.Consume(t.Context(), records[0].ID, request("x 0").claim("c")))
	note(d.Answer(t.Context(), records[2].ID, Answer{Decision: AllowAlways, By: "anna"}))
	ok(t, d.Close())
	return steps, states
}

// After a kill at any byte of the journal, the desk has exactly the states that it had
// reported.
func TestKilledBetweenAnyTwoBytes(t *testing.T) {
	dir := t.TempDir()
	steps, states := history(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	ok(t, err)
	for n := range len(text) + 1 {
		want := map[string]State{}
		for i, at := range steps {
			if int64(n) >= at {
				want = states[i]
			}
		}
		got := map[string]State{}
		good, err := replay(text[:n], func(l line) error {
			if l.Record != nil {
				got[l.Record.ID] = l.Record.State
			}
			return nil
		})
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		if !maps.Equal(want, got) {
			t.Fatalf("cut to %d bytes: %v, want %v", n, got, want)
		}
		// With a desk it takes longer.
		if whole := good == n; whole || n%101 == 0 || n < 5 {
			if diff := cmp.Diff(want, reopened(t, text[:n], !whole)); diff != "" {
				t.Fatalf("cut to %d bytes:\n%s", n, diff)
			}
		}
	}
}

// reopened opens a desk on that journal, twice. It returns the states, and checks whether
// the log says that a line was cut.
func reopened(t *testing.T, text []byte, cut bool) map[string]State {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, journalName), text, 0o600))
	var states [2]map[string]State
	var logs [2]strings.Builder
	for i := range states {
		d, err := OpenDesk(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&logs[i], nil))})
		ok(t, err)
		states[i] = map[string]State{}
		for _, r := range d.List(Filter{}) {
			states[i][r.ID] = r.State
		}
		ok(t, d.Close())
	}
	if strings.Contains(logs[0].String(), "cut short") != cut || logs[1].Len() > 0 {
		t.Errorf("cut: %t, and it logs %q, then %q", cut, logs[0].String(), logs[1].String())
	}
	if diff := cmp.Diff(states[0], states[1]); diff != "" {
		t.Error(diff)
	}
	return states[0]
}

// A journal with one flipped bit is not trusted. Only in the last line, the flip may make
// it a line that was cut short.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	history(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	ok(t, err)
	lines := bytes.Count(text, []byte("\n"))
	for i := range text {
		damaged := bytes.Clone(text)
		damaged[i] ^= 1 << (i % 8)
		n := 0
		_, err := replay(damaged, func(line) error { n++; return nil })
		if err == nil && (i != len(text)-1 || n != lines-1) && !sameLines(t, text, damaged) {
			t.Fatalf("with byte %d (%q) another one it is read, %d lines", i, text[i], n)
		}
	}
	damaged := bytes.Replace(text, []byte(`"pending"`), []byte(`"allowed"`), 1)
	ok(t, os.WriteFile(filepath.Join(dir, journalName), damaged, 0o600))
	_, err = OpenDesk(Options{Dir: dir})
	wantKind(t, err, corral.ErrUnavailable, journalName+":2 (byte ", "checksum")
	if corral.Hint(err) == "" {
		t.Error("no hint")
	}
	for name, text := range map[string]string{
		"no header": string(text[bytes.IndexByte(text, '\n')+1:]), "two headers": string(text) + string(text), "text": "hello\n",
		"null": "null\n", "newer": string(must(line{Version: 2}.encode())), "nothing": string(must(line{Version: 1}.encode())) + string(must(line{}.encode())),
	} {
		if _, err := replay([]byte(text), func(line) error { return nil }); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// sameLines reports whether two journals have the same content: names of fields are read
// in any case, and a checksum is that of the content.
func sameLines(t *testing.T, a, b []byte) bool {
	t.Helper()
	collect := func(text []byte) (all []string) {
		_, err := replay(text, func(l line) error {
			b, err := json.Marshal(l)
			all = append(all, string(b))
			return err
		})
		ok(t, err)
		return all
	}
	return slices.Equal(collect(a), collect(b))
}

// A change that cannot be written has no effect, and leaves no damaged line behind.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	r := ask(t, d, request("x 1"))
	j := d.store.(*files).j
	broken, err := os.Open(filepath.Join(dir, journalName)) // cannot be written, nor cut
	ok(t, err)
	j.Fail(func(op string) error {
		if op == "cut" {
			return broken.Truncate(0)
		}
		_, err := broken.WriteString(op)
		return err
	})
	_, err = d.Answer(t.Context(), r.ID, Answer{Decision: AllowOnce})
	wantKind(t, err, corral.ErrUnavailable, "cannot write")
	if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
		t.Errorf("%+v, %v", now, err)
	}
	j.Fail(nil)
	_, err = d.Ask(t.Context(), request("x 2"))
	wantKind(t, err, corral.ErrUnavailable) // the content of the disk is not known
	ok(t, broken.Close())
	ok(t, d.Close())
	d = openDesk(t, dir)
	if now, err := d.Get("", r.ID); err != nil || now.State != Pending {
		t.Errorf("%+v, %v", now, err)
	}
}

// For any sequence of requests, answers, uses and restarts: an approval is used only if a
// person allowed it, by one command, and the first answer stays.
func TestDeskProperties(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		remembered := map[string]int{}
		open := func() *Desk {
			d, err := OpenDesk(Options{Dir: dir, Remember: func(_ context.Context, r Record, _ []policy.Rule) error {
				remembered[r.ID]++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := open()
		defer func() { d.Close() }()
		answers, users := map[string]Verdict{}, map[string]string{}
		asked := map[string]string{}
		some := func() string {
			if len(asked) == 0 {
				return "none"
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(asked))).Draw(t, "id")
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				command := rapid.SampledFrom([]string{"x 1", "x 2", "y"}).Draw(t, "command")
				r, err := d.Ask(context.Background(), request(command))
				if err != nil || answers[r.ID] != "" {
					t.Fatalf("%+v, %v", r, err)
				}
				asked[r.ID] = command
			},
			"answer": func(t *rapid.T) {
				id, v := some(), rapid.SampledFrom(Verdicts).Draw(t, "verdict")
				_, err := d.Answer(context.Background(), id, Answer{Decision: v})
				if won := err == nil; won != (answers[id] == "" && id != "none") {
					t.Fatalf("answered %q before, and now %s: %v", answers[id], v, err)
				}
				if err == nil {
					answers[id] = v
				}
			},
			"consume": func(t *rapid.T) {
				id, user := some(), rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "user")
				command := rapid.SampledFrom([]string{"x 1", "x 2", "y"}).Draw(t, "command")
				_, err := d.Consume(context.Background(), id, request(command).claim(user))
				allowed := answers[id] == AllowOnce || answers[id] == AllowAlways
				may := allowed && command == asked[id] && (users[id] == "" || users[id] == user)
				if (err == nil) != may || err != nil && !errors.Is(err, corral.ErrDenied) {
					t.Fatalf("answered %q, for %q used by %q; %q claims for %q: %v", answers[id], asked[id], users[id], user, command, err)
				}
				if err == nil {
					users[id] = user
				}
			},
			"restart": func(*rapid.T) { d.Close(); d = open() },
			"": func(t *rapid.T) {
				for _, r := range d.List(Filter{}) {
					if r.Verdict != answers[r.ID] || r.CommandID != users[r.ID] || (r.State == Pending) != (answers[r.ID] == "") {
						t.Fatalf("%s is %s, answered %s, used by %q", asked[r.ID], r.State, r.Verdict, r.CommandID)
					}
					if always := answers[r.ID] == AllowAlways; (remembered[r.ID] == 1) != always || remembered[r.ID] > 1 {
						t.Fatalf("answered %s and remembered %d times", answers[r.ID], remembered[r.ID])
					}
				}
			},
		})
	})
}

func FuzzJournal(f *testing.F) {
	r := Record{ID: "a", Slug: "b-c-1", State: Allowed, Seq: 4}
	header, record := must(line{Version: 1, Seq: 3}.encode()), must(line{Record: &r}.encode())
	f.Add(slices.Concat(header, record))
	f.Add(slices.Concat(header, record[:len(record)-3]))
	f.Add(header)
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var lines []line
		good, err := replay(text, func(l line) error { lines = append(lines, l); return nil })
		if err != nil {
			return
		}
		if good > len(text) || bytes.IndexByte(text[good:], '\n') >= 0 || good > 0 && text[good-1] != '\n' {
			t.Fatalf("%d bytes of %q count", good, text)
		}
		var again []byte
		for _, l := range lines {
			b, err := l.encode()
			ok(t, err)
			again = append(again, b...)
		}
		n := 0
		if _, err := replay(again, func(line) error { n++; return nil }); err != nil || n != len(lines) {
			t.Fatalf("written again: %v", err)
		}
	})
}
