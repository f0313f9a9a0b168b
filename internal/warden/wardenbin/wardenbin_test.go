package wardenbin

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
)

// other is a supported architecture that is not this machine's.
var other = map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]

// For each architecture there is one inside that can be a warden of it.
func TestEmbedded(t *testing.T) {
	t.Setenv(EnvVar, "")
	if len(embedded) != len(machines) {
		t.Errorf("%d wardens are embedded, want %d", len(embedded), len(machines))
	}
	dir := t.TempDir()
	for goarch := range machines {
		data, err := Bytes(goarch)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(data, goarch); err != nil {
			t.Errorf("%s: %v", goarch, err)
		}
		path, err := Find(dir, goarch)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: Find and Bytes differ: %v", goarch, err)
		}
	}
}

func TestFindErrors(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{"other": fakeELF(other, ""), "script": []byte("#!/bin/sh\n")} {
		writeFile(t, filepath.Join(dir, name), data)
	}
	tests := map[string]struct {
		env    string
		goarch string
		kind   error
		text   string
	}{
		"unsupported arch":    {"", "s390x", corral.ErrInvalid, `architecture "s390x"`},
		"env names nothing":   {"gone", runtime.GOARCH, corral.ErrUnavailable, "gone: no such file"},
		"env of another arch": {"other", runtime.GOARCH, corral.ErrUnavailable, "built for EM_"},
		"env names a script":  {"script", runtime.GOARCH, corral.ErrUnavailable, "not an ELF file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvVar, "")
			if tt.env != "" {
				t.Setenv(EnvVar, filepath.Join(dir, tt.env))
			}
			path, err := Find(t.TempDir(), tt.goarch)
			if !errors.Is(err, tt.kind) || path != "" {
				t.Fatalf("Find = %q, %v; want an error that is %q", path, err, tt.kind)
			}
			if !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q; want one line with %q", err, tt.text)
			}
			if corral.Hint(err) == "" {
				t.Errorf("error %q has no hint", err)
			}
		})
	}
}

func TestFindUsesEnvironment(t *testing.T) {
	p := filepath.Join(t.TempDir(), "w")
	want := fakeELF(runtime.GOARCH, "env")
	writeFile(t, p, want)
	t.Setenv(EnvVar, p)
	if got, err := Find(t.TempDir(), runtime.GOARCH); err != nil || got != p {
		t.Errorf("Find = %q, %v; want %q", got, err, p)
	}
	if got, err := Bytes(runtime.GOARCH); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Bytes = %d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestExtract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	data := fakeELF(runtime.GOARCH, "one")
	path, err := extract(dir, data)
	if err != nil {
		t.Fatal(err)
	}
	first := stat(t, path)
	if first.Mode() != 0o555 {
		t.Errorf("mode %v, want r-xr-xr-x", first.Mode())
	}
	if again, err := extract(dir, data); err != nil || again != path || !os.SameFile(first, stat(t, path)) {
		t.Errorf("the file was written again: %q, %v", again, err)
	}
	if second, err := extract(dir, fakeELF(runtime.GOARCH, "two")); err != nil || second == path {
		t.Errorf("another content has the path %q, %v", second, err)
	}

	// What is there under the name and is not right is replaced.
	for what, spoil := range map[string]func(){
		"changed": func() { writeFile(t, path, append(bytes.Clone(data[:len(data)-1]), 'x')) },
		"cut":     func() { writeFile(t, path, data[:10]) },
		"symlink": func() {
			if err := os.Symlink("/bin/sh", path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		spoil()
		if _, err := extract(dir, data); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, data) || stat(t, path).Mode() != 0o555 {
			t.Errorf("%s: not replaced: %v, mode %v", what, err, stat(t, path).Mode())
		}
	}

	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files, want the two wardens and nothing temporary: %v, %v", len(entries), entries, err)
	}
}

func TestExtractFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, nil)
	if _, err := extract(file, fakeELF(runtime.GOARCH, "")); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("extracting into a file: %v", err)
	}
}

// Files are written and run by many goroutines at once: without the fork lock
// some of these fail with ETXTBSY.
func TestWriteExecutableRuns(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 25 {
				p := filepath.Join(dir, string(rune('a'+i)))
				if err := WriteExecutable(p, data); err != nil {
					t.Error(err)
				}
				if err := exec.Command(p).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}
