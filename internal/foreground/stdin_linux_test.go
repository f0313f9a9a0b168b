package foreground

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// fakeProc makes a /proc with a chain of processes, the nearest first: their
// program, and what they have as standard input.
type fakeProcess struct{ program, stdin string }

func fakeProc(t *testing.T, chain []fakeProcess) string {
	t.Helper()
	proc := t.TempDir()
	for i, p := range chain {
		dir := filepath.Join(proc, fmt.Sprint(i+1))
		parent := i + 2
		if i == len(chain)-1 {
			parent = 0
		}
		for _, err := range []error{
			os.MkdirAll(dir+"/fd", 0o755),
			os.Symlink("/usr/bin/"+p.program, dir+"/exe"),
			os.Symlink(p.stdin, dir+"/fd/0"),
			os.WriteFile(dir+"/stat", fmt.Appendf(nil, "%d (a) b (c) S %d 1 1", i+1, parent), 0o644),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return proc
}

func TestRedirected(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	for _, name := range []string{file, other} {
		if err := os.WriteFile(name, []byte("data"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		chain []fakeProcess
		read  int // bytes that somebody has read from it
		want  bool
	}{
		{"no parent", nil, 0, true},
		{"given", []fakeProcess{{"bash", other}}, 0, true},
		{"inherited", []fakeProcess{{"bash", file}}, 0, false},
		{"inherited from a program", []fakeProcess{{"python3", file}, {"bash", other}}, 0, false},
		{"through timeout", []fakeProcess{{"timeout", file}, {"bash", other}}, 0, true},
		{"through timeout and sudo", []fakeProcess{{"timeout", file}, {"sudo", file}, {"bash", other}}, 0, true},
		{"inherited through timeout", []fakeProcess{{"timeout", file}, {"bash", file}}, 0, false},
		{"through the init of a container", []fakeProcess{{"tini", file}}, 0, true},
		{"dash, fresh", []fakeProcess{{"dash", file}}, 0, true},
		{"dash, begun", []fakeProcess{{"dash", file}}, 1, false},
	} {
		parent := 1
		if tc.chain == nil {
			parent = 0
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(make([]byte, tc.read)); err != nil {
			t.Fatal(err)
		}
		if got := redirectedFrom(f, parent, fakeProc(t, tc.chain)); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		f.Close()
	}
}

func TestRedirectedNothing(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, f := range []*os.File{null, closed} {
		if redirectedFrom(f, 0, t.TempDir()) {
			t.Errorf("%s has input", f.Name())
		}
	}
}

func TestPending(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if Pending(r) {
		t.Error("an empty pipe has data")
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if !Pending(r) {
		t.Error("a full pipe has no data")
	}
}
