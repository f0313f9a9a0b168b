package wardenexec

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/state/journal"
)

// A damagedJournal is one of processes that ended, run, and were removed.
func damagedJournal(t *testing.T) (text []byte, codes map[string]int) {
	dir := t.TempDir()
	r := openTest(t, dir)
	codes = map[string]int{"tall-owl": 3, "glad-fox": 0, "big-cat": 127}
	for id, code := range codes {
		if err := r.start(id, 1<<40, tagFor("main")); err != nil {
			t.Fatal(err)
		}
		tg := tag{Info: origin.Info{Info: corral.Info{ID: id}, Origin: &origin.Origin{Agent: "main"}}}
		if err := r.end(id, record{tag: tg, Exit: corral.Exit{Code: code}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.start("runs", 7, tagFor("other")); err != nil {
		t.Fatal(err)
	}
	r.ran(t, "removed", 0)
	r.removed(t, "removed")
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return text, codes
}

// look opens a journal, and fails if something is told that was not so, or nothing of
// what is missing. It returns what is missing.
func look(t *testing.T, text []byte, codes map[string]int, mayMiss bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r, err := openRecords(dir, false, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	told := strings.Contains(log.String(), "level=ERROR")
	aside, err := filepath.Glob(filepath.Join(dir, journalName+journal.Infix+"*"))
	if err != nil || told != (len(aside) == 1) {
		t.Fatalf("%v is kept aside, %v: %s", aside, err, log.String())
	}
	missing := false
	for id, code := range codes {
		_, rec, err := r.find(id)
		switch {
		case err != nil:
			t.Fatal(err)
		case rec == nil:
			missing = true
		case rec.Exit.Code != code:
			t.Fatalf("%s ended with %d, not %d\n%s", id, rec.Exit.Code, code, text)
		}
	}
	if started, rec, err := r.find("runs"); !started || rec != nil || err != nil {
		missing = true
	}
	if started, _, _ := r.find("removed"); started {
		missing = true
	}
	if missing && !told && !mayMiss {
		t.Fatalf("something is missing, and nothing is said\n%s", text)
	}
	if r.damage.Any() {
		t.Fatal("it is still damaged")
	}
}

// Wherever the journal is cut within a line, and whichever bit flips, nothing is
// silently missing, and no end is made up.
func TestJournalDamaged(t *testing.T) {
	text, codes := damagedJournal(t)
	look(t, text, codes, false)
	for n := range text {
		atEnd := n == 0 || text[n-1] == '\n' || text[n] == '\n'
		look(t, text[:n], codes, atEnd) // nobody can tell that there was another line
		flipped := bytes.Clone(text)
		flipped[n] ^= 1 << (n % 8)
		look(t, flipped, codes, false)
	}
	look(t, bytes.Repeat([]byte{0xff, 0, '\n'}, 1000), codes, false)
}

// If nothing is left of a journal, as after a power cut, what has output is known again.
func TestJournalLost(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.out", "no id.out"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	for range 2 { // the next life reads it in the journal
		r, err := openRecords(dir, false, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if started, rec, err := r.find("a"); !started || rec != nil || err != nil {
			t.Errorf("%t, %+v, %v", started, rec, err)
		}
		r.close()
	}
	if strings.Count(log.String(), "has output") != 1 {
		t.Error(log.String())
	}
}

// A journal without checksums, of an earlier version, is read as it was.
func TestJournalUnsigned(t *testing.T) {
	dir := t.TempDir()
	old := "\nS a 7\n\nE a {\"info\":{\"id\":\"a\"},\"exit\":{\"exitCode\":3},\"at\":\"2999-01-01T00:00:00Z\"}\n\nS b 8\n\nS c\n\nR c\n"
	if err := os.WriteFile(filepath.Join(dir, journalName), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and when it was written anew
		r := openTest(t, dir)
		r.has(t, "a", 3)
		if started, rec, err := r.find("b"); !started || rec != nil || err != nil || r.startedBy("b") != 8 {
			t.Errorf("b: %v %v %v", started, rec, err)
		}
		if started, _, _ := r.find("c"); started {
			t.Error("c is there")
		}
		if err := r.compact(); err != nil {
			t.Fatal(err)
		}
		r.close()
	}
}

// A process of which there is a log, and no line any more, was started.
func TestJournalFoundAgain(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{journalName: "\nS x\x01 7  00000000\n", "x.out": "its output"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := openTest(t, dir)
	if started, rec, err := r.find("x"); !started || rec != nil || err != nil {
		t.Errorf("%v, %v, %v", started, rec, err)
	}
}

func TestAgents(t *testing.T) {
	text, codes := damagedJournal(t)
	dir := t.TempDir()
	if got, err := Agents(dir); len(got) != 0 || err != nil {
		t.Errorf("without a journal: %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, journalName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"runs": "other"}
	for id := range codes {
		want[id] = "main"
	}
	if got, err := Agents(dir); !maps.Equal(got, want) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	r := openTest(t, dir)
	if err := r.compact(); err != nil {
		t.Fatal(err)
	}
	if got, err := Agents(dir); !maps.Equal(got, want) || err != nil {
		t.Errorf("when it was written anew: %v, %v", got, err)
	}
}
