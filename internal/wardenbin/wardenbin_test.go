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
	"testing/fstest"

	"github.com/corral-exec/corral"
)

// other is a supported architecture that is not this machine's.
var other = map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]

// none finds nothing: tests add the one place they are about.
func none(t *testing.T) finder {
	return finder{
		exeDir: t.TempDir(),
		path:   func(string) (string, error) { return "", exec.ErrNotFound },
		files:  fstest.MapFS{},
	}
}

func TestFindOrder(t *testing.T) {
	native := func(tag string) []byte { return fakeELF(runtime.GOARCH, tag) }
	dir := t.TempDir()
	put := func(dir, name string, data []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}

	// From the last place to the first: each is preferred to those before.
	f := none(t)
	want := func(goarch, tag string) {
		t.Helper()
		path, err := f.find(filepath.Join(dir, "state"), goarch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, fakeELF(goarch, tag)) {
			t.Errorf("%s: found %s, which is not %q", goarch, path, tag)
		}
		if !filepath.IsAbs(path) {
			t.Errorf("%s: the path %s is relative", goarch, path)
		}
	}

	onPath := map[string]string{"corral-warden": put(dir, "on-path", native("path"))}
	f.path = func(n string) (string, error) {
		if p, ok := onPath[n]; ok {
			return p, nil
		}
		return "", exec.ErrNotFound
	}
	want(runtime.GOARCH, "path")
	if _, err := f.search(other); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("a bare name on PATH was taken for %s: %v", other, err)
	}
	onPath["corral-warden-"+other] = put(dir, "on-path-other", fakeELF(other, "path"))
	want(other, "path")

	f.files = fstest.MapFS{
		"corral-warden-" + runtime.GOARCH: {Data: native("embedded")},
		"corral-warden-" + other:          {Data: fakeELF(other, "embedded")},
	}
	want(runtime.GOARCH, "embedded")
	want(other, "embedded")

	put(f.exeDir, "corral-warden", native("beside"))
	want(runtime.GOARCH, "beside")
	want(other, "embedded")
	put(f.exeDir, "corral-warden-"+runtime.GOARCH, native("beside, by arch"))
	put(f.exeDir, "corral-warden-"+other, fakeELF(other, "beside, by arch"))
	want(runtime.GOARCH, "beside, by arch")
	want(other, "beside, by arch")

	f.env = put(dir, "env", native("env"))
	want(runtime.GOARCH, "env")
}

func TestFindErrors(t *testing.T) {
	tests := map[string]struct {
		set    func(t *testing.T, f *finder)
		goarch string
		kind   error
		text   string
	}{
		"nowhere":          {func(*testing.T, *finder) {}, runtime.GOARCH, corral.ErrUnavailable, "no corral-warden for linux/" + runtime.GOARCH},
		"unsupported arch": {func(*testing.T, *finder) {}, "s390x", corral.ErrInvalid, `architecture "s390x"`},
		"env names nothing": {func(t *testing.T, f *finder) { f.env = filepath.Join(t.TempDir(), "gone") },
			runtime.GOARCH, corral.ErrUnavailable, "gone: no such file"},
		"env of another arch": {func(t *testing.T, f *finder) {
			f.env = filepath.Join(t.TempDir(), "w")
			writeFile(t, f.env, fakeELF(other, ""))
		}, runtime.GOARCH, corral.ErrUnavailable, "built for EM_"},
		// The one beside the executable is broken: that is said, although
		// there is a good one inside.
		"broken beside": {func(t *testing.T, f *finder) {
			writeFile(t, filepath.Join(f.exeDir, "corral-warden"), []byte("#!/bin/sh\n"))
			f.files = fstest.MapFS{"corral-warden-" + runtime.GOARCH: {Data: fakeELF(runtime.GOARCH, "")}}
		}, runtime.GOARCH, corral.ErrUnavailable, "not an ELF file"},
		"broken inside": {func(t *testing.T, f *finder) {
			f.files = fstest.MapFS{"corral-warden-" + runtime.GOARCH: {Data: nil}}
		}, runtime.GOARCH, corral.ErrUnavailable, "in this executable"},
		"relative on PATH": {func(t *testing.T, f *finder) {
			f.path = func(string) (string, error) { return "corral-warden", exec.ErrDot }
		}, runtime.GOARCH, corral.ErrUnavailable, "on PATH"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := none(t)
			tt.set(t, &f)
			path, err := f.find(t.TempDir(), tt.goarch)
			if !errors.Is(err, tt.kind) || path != "" {
				t.Fatalf("find = %q, %v; want an error that is %q", path, err, tt.kind)
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
