package warden

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// oneEntry is a ledger with one entry, as a supervisor leaves it that is killed.
func oneEntry(t *testing.T) (dir string, slot []byte) {
	t.Helper()
	dir = t.TempDir()
	l, err := openLedger(dir, 1, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	e := &wire.Message{Type: wire.Item, ID: "x", PID: 7, Offset: 1 << 60, Tag: []byte("tag"), Text: l.boot}
	l.note(e, l.note(&wire.Message{Type: wire.Item, ID: "x"}, noSlot)) // without its number at first
	if LeftBehind(dir) != 0 {
		t.Error("what its supervisor has is not left behind")
	}
	l.f.Close()
	if n := LeftBehind(dir); n != 1 {
		t.Errorf("%d entries were left behind", n)
	}
	slot, err = os.ReadFile(l.f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return dir, slot
}

// An entry that was cut short or changed in any bit is none, and is counted.
func TestLedgerDamaged(t *testing.T) {
	dir, slot := oneEntry(t)
	if e, err := decodeSlot(slot); err != nil || e.ID != "x" || e.PID != 7 || e.Offset != 1<<60 || string(e.Tag) != "tag" {
		t.Fatalf("%+v, %v", e, err)
	}
	for n := range slot {
		if e, err := decodeSlot(slot[:n]); err == nil && e != nil {
			t.Fatalf("cut at %d it is %+v", n, e)
		}
		for bit := range 8 {
			b := bytes.Clone(slot)
			b[n] ^= 1 << bit
			if e, err := decodeSlot(b); err == nil && e != nil {
				t.Fatalf("with bit %d of byte %d flipped it is %+v", bit, n, e)
			}
		}
	}
	name := filepath.Join(dir, ledgerPrefix+"1-1")
	slot[len(slot)-1] ^= 1
	if err := os.WriteFile(name, slot, 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	s, err := New(Options{TakeOver: []string{dir}, Log: func(format string, args ...any) { t.Logf(format, args...); said.WriteString(format) }})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if !strings.Contains(said.String(), "cannot be read") {
		t.Error("nobody was told")
	}
}

// A ledger has no more slots than commands that run at a time, and goes with the
// last of them.
func TestLedgerSlots(t *testing.T) {
	dir := t.TempDir()
	l, err := openLedger(dir, 1, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		a, b := l.note(&wire.Message{ID: "a"}, noSlot), l.note(&wire.Message{ID: "b", Tag: make([]byte, wire.MaxTag)}, noSlot)
		l.clear(a)
		l.clear(b)
	}
	if l.slots != 2 || l.full {
		t.Errorf("%d slots, full: %v", l.slots, l.full)
	}
	l.close()
	if HasLedger(dir) {
		t.Error("an empty ledger stays")
	}
	l.clear(0) // what is late does nothing
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, slotHeader))
	f.Add([]byte{4, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeSlot(b)
		if err == nil && e != nil && (e.ID == "" || strings.Contains(e.ID, "/")) {
			t.Errorf("%+v", e)
		}
	})
}

// A ledger that was just made, and is not locked yet, is not taken from its supervisor.
func TestNewLedgerIsNotOrphaned(t *testing.T) {
	dir := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[int]int{os.Getpid(): 0, ended.Process.Pid: 1} {
		name := filepath.Join(dir, fmt.Sprintf("%s%d-1", ledgerPrefix, pid))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		files := orphaned(dir, true)
		for _, f := range files {
			f.Close()
		}
		if len(files) != want {
			t.Errorf("of process %d: %d are taken, want %d", pid, len(files), want)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
