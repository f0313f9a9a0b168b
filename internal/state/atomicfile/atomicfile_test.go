package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// alone demands that a file is all there is in its directory, and has a content;
// with an empty one, that there is nothing.
func alone(t *testing.T, file, content string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	if content == "" {
		if len(list) > 0 {
			t.Errorf("there is %q", names)
		}
		return
	}
	if len(list) != 1 || names[0] != filepath.Base(file) {
		t.Errorf("there is %q", names)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != content {
		t.Errorf("%q, %v; want %q", got, err, content)
	}
}

func TestWrite(t *testing.T) {
	for _, durable := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "f")
		for _, text := range []string{"one\n", "another, longer\n", "3\n"} {
			if err := Write(file, []byte(text), Options{Durable: durable}); err != nil {
				t.Fatal(err)
			}
			alone(t, file, text)
		}
		if err := Create(file, []byte("new\n"), Options{Durable: durable}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create where there is one: %v", err)
		}
		alone(t, file, "3\n")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := Create(file, []byte("new\n"), Options{Durable: durable}); err != nil {
			t.Error(err)
		}
		alone(t, file, "new\n")
	}
}

// A mode is the one that was asked for, also of a file that had another.
func TestMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which has no such modes
	}
	file := filepath.Join(t.TempDir(), "f")
	for _, mode := range []fs.FileMode{0, 0o755, 0o400, 0o666, 0} {
		want := mode
		if mode == 0 {
			want = 0o600
		}
		if err := Write(file, nil, Options{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode() != want {
			t.Errorf("%v, %v; want %v", info.Mode(), err, want)
		}
	}
}

// Whatever fails, the old file stays, and nothing else.
func TestFaults(t *testing.T) {
	refused := errors.New("refused")
	refuse := Options{Durable: true, Prepare: func(f *os.File) error {
		if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "new" {
			t.Errorf("prepared with %q, %v", got, err)
		}
		return refused
	}}
	file := filepath.Join(t.TempDir(), "f")
	for name, write := range map[string]func(string, []byte, Options) error{"Write": Write, "Create": Create} {
		if err := write(file, []byte("new"), refuse); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		alone(t, file, "")
		if err := write(filepath.Join(file, "below"), []byte("new"), Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s in a directory that there is not: %v", name, err)
		}
	}
	if err := Write(file, []byte("old"), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, []byte("new"), refuse); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	alone(t, file, "old")
	if err := Write(filepath.Dir(file), []byte("new"), Options{}); err == nil {
		t.Error("a directory was replaced")
	}
	alone(t, file, "old")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(file)), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left beside the directory: %q, %v", left, err)
	}
}

// Readers find what one of several writers has written, all of it.
func TestWriters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1000*(i+1)) }
	if err := Write(file, []byte(text(0)), Options{}); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	for i := range 4 {
		writing.Go(func() {
			for range 50 {
				if err := Write(file, []byte(text(i)), Options{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); writing.Wait() }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || string(got) != text(int(got[0]-'a')) {
			t.Fatalf("%d bytes, %.10q…", len(got), got)
		}
	}
}
