package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const rest = "S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22\n"
	usual := Stat{PID: 12, State: 'S', Parent: 2, Group: 3, Session: 4, TTY: 5, Flags: 7, Threads: 18, Started: 20}
	for _, tc := range []struct {
		text string
		want Stat // zero: an error
	}{
		{"12 (a) " + rest, usual},
		{"12 () " + rest, usual},
		// Names that a process may choose.
		{"12 (a) R 1 (b) " + rest, usual},
		{"12 (a) R 1 99 99 99 99) " + rest, usual},
		{"12 (((a) " + rest, usual},
		{"12 ()))) " + rest, usual},
		{"12 (a\nb) Z 0) " + rest, usual},
		{"12 (\xff\x00) " + rest, usual},
		// A file that is cut.
		{"12 (a) Z 2 3 4", Stat{PID: 12, State: 'Z', Parent: 2, Group: 3, Session: 4, Started: math.MaxUint64}},
		{"12 (a) Z 2 3 4 5 6 7", Stat{PID: 12, State: 'Z', Parent: 2, Group: 3, Session: 4, TTY: 5, Flags: 7, Started: math.MaxUint64}},
		{"12 (a) S 2 -1 -1 -1", Stat{PID: 12, State: 'S', Parent: 2, Group: -1, Session: -1, TTY: -1, Started: math.MaxUint64}},
		{"12 (a) S 2 3", Stat{}},
		{"12 (a) R 1 (b", Stat{}},
		{"", Stat{}},
		{"12", Stat{}},
		{"(a) " + rest, Stat{}},
		{"12 )a( " + rest, Stat{}},
		{"x (a) " + rest, Stat{}},
		{"12 (a) SS 2 3 4", Stat{}},
		{"12 (a) S x 3 4", Stat{}},
		{"12 (a) S 2 3 4 x", Stat{}},
		{"12 (a) S 2 3 4 5 6 -7", Stat{}},
		{"12 (a) " + strings.Replace(rest, "20", "99999999999999999999", 1), Stat{}},
	} {
		got, err := Parse([]byte(tc.text))
		if got != tc.want || (err == nil) != (tc.want != Stat{}) || err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v", tc.text, got, err)
		}
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[byte]bool{'R': false, 'S': false, 'T': false, 'Z': true, 'X': true} {
		if got := (Stat{State: state}).Ended(); got != want {
			t.Errorf("%c: %v", state, got)
		}
	}
	if (Stat{State: 'Z', Threads: 2}).Ended() {
		t.Error("a process of which only the first thread has ended runs")
	}
	if (Stat{Flags: 0x400040}).Exiting() || !(Stat{Flags: 0x400044}).Exiting() {
		t.Error("the flag of processes at their end is another")
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (a) R 1 (b) S 2 3 4", 12), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(dir); err != nil || s.PID != 12 || s.Parent != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return // not Linux
	}
	if s, err := Read("/proc/self"); err != nil || s.PID != os.Getpid() || s.Parent != os.Getppid() || s.Started == math.MaxUint64 || s.Ended() {
		t.Errorf("%+v, %v", s, err)
	}
}

// The kernel writes the file, but the process chooses the name in it.
func FuzzParse(f *testing.F) {
	f.Add([]byte("12 (a) b) (c) S 1 2 3 4"))
	f.Add([]byte("1 (x) Z 0 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Parse(b); err == nil && !bytes.Contains(b, []byte{')'}) {
			t.Fatalf("%q is %+v", b, s)
		}
	})
}
