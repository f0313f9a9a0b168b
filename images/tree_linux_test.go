package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plant makes the same tree whatever the order in which its files are made.
func plant(t *testing.T, reverse bool) *os.Root {
	t.Helper()
	dir := t.TempDir()
	files := []string{"bin/a", "bin/b", "etc/machine-id", "etc/passwd", "etc/passwd-", "usr/share/doc/git/copyright", "usr/share/doc/git/README", "usr/share/doc/none/README", "var/log/x"}
	if reverse {
		slices.Reverse(files)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, []byte("content of "+name), 0o644))
		must(os.Chtimes(path, testTime, testTime.Add(-time.Minute)))
	}
	must(os.Link(filepath.Join(dir, "bin/b"), filepath.Join(dir, "bin/c")))
	must(os.Symlink("/etc/passwd", filepath.Join(dir, "bin/link")))
	must(os.Chmod(filepath.Join(dir, "bin/a"), 0o755|os.ModeSetuid))
	must(unix.Mkfifo(filepath.Join(dir, "bin/fifo"), 0o600))
	root, err := os.OpenRoot(dir)
	must(err)
	t.Cleanup(func() { must(root.Close()) })
	return root
}

func TestScanTree(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		entries, err := scanTree(plant(t, i == 1), debianPrune)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writeTar(t.Context(), &out, entries, testTime); err != nil {
			t.Fatal(err)
		}
		archives[i] = out.Bytes()
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two equal trees give different archives")
	}
	all := readTar(t, archives[0])
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"bin/", "bin/a", "bin/b", "bin/c", "bin/link", "etc/", "etc/passwd", "usr/", "usr/share/", "usr/share/doc/",
		"usr/share/doc/git/", "usr/share/doc/git/copyright", "var/", "var/log/"}
	if !slices.Equal(names, want) {
		t.Errorf("archive has\n%v, want\n%v", names, want)
	}
	if h := all["bin/c"]; h.Typeflag != tar.TypeLink || h.Linkname != "bin/b" {
		t.Errorf("bin/c: %+v", h)
	}
	if h := all["bin/a"]; h.Mode != 0o755 || h.Uid != os.Getuid() || !h.ModTime.Equal(testTime.Add(-time.Minute)) {
		t.Errorf("bin/a: %+v", h)
	}
}

func TestNewestBefore(t *testing.T) {
	begun := testTime.Add(time.Hour)
	entries := []entry{
		fileEntry("old", 0o644, nil, testTime.Add(-time.Hour)),
		fileEntry("newest", 0o644, nil, testTime.Add(time.Millisecond)),
		fileEntry("made by the build", 0o644, nil, begun),
		fileEntry("made later", 0o644, nil, begun.Add(time.Minute)),
	}
	if got, err := newestBefore(entries, begun); err != nil || !got.Equal(testTime) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := newestBefore(entries[2:], begun); err == nil {
		t.Errorf("of no package: %v", got)
	}
}

// Other users of the machine can write to /workspace of a file system that is assembled in
// a directory for all users.
func TestNothingIsPlanted(t *testing.T) {
	fs := &debianFS{temp: t.TempDir()}
	for name, text := range map[string]string{
		"var/lib/dpkg/status": "Package: base\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n",
		"workspace/.profile":  "planted", "workspace/.config/x": "planted",
	} {
		path := filepath.Join(fs.temp, "root", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.open(building{recipe: recipes[Base]}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	var names []string
	for _, e := range fs.files.entries {
		names = append(names, e.Name)
	}
	if want := []string{"var", "var/lib", "var/lib/dpkg", "var/lib/dpkg/status", "workspace"}; !slices.Equal(names, want) {
		t.Errorf("the image has %v, want %v", names, want)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{tempPrefix + "1/root/etc", "other/root"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other", filepath.Join(dir, tempPrefix+"2")); err != nil {
		t.Fatal(err)
	}
	if err := sweep(dir); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	want := []string{filepath.Join(dir, tempPrefix+"2"), filepath.Join(dir, "other")}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, %v, want %v", left, err, want)
	}
}
