//go:build e2e

package diskimage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const size = 32 << 20

// image is one that is mounted.
func image(t *testing.T) (file, dir string) {
	t.Helper()
	at := t.TempDir()
	file, dir = filepath.Join(at, "x.img"), filepath.Join(at, "x")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(Partial(file), []byte("left by one that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Make(t.Context(), file, size); err != nil {
		t.Fatal(err)
	}
	mount(t, file, dir)
	return file, dir
}

func mount(t *testing.T, file, dir string) {
	t.Helper()
	t.Cleanup(func() {
		if err := Unmount(dir); err != nil {
			t.Error(err)
		}
	})
	if err := Mount(file, dir); err != nil {
		t.Fatal(err)
	}
}

// devices are the loop devices that have a file in them.
func devices(t *testing.T, file string) (found []string) {
	t.Helper()
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, _ := os.ReadFile(name) // not used any more
		if strings.HasPrefix(string(b), file) {
			found = append(found, name)
		}
	}
	return found
}

func TestCheck(t *testing.T) {
	if err := Check(); err != nil {
		t.Fatal(err)
	}
}

func TestBytesAreLimited(t *testing.T) {
	file, dir := image(t)
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("a new one has %v, %v", list, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	f, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block, n := bytes.Repeat([]byte{1}, 1<<20), 0
	for ; n <= size>>20; n++ {
		if _, err = f.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || n < size>>20*3/4 {
		t.Errorf("%d MiB were written: %v", n, err)
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil || st.Blocks*512 > size+1<<20 {
		t.Errorf("the disk has %d bytes of it, %v", st.Blocks*512, err)
	}
}

func TestFilesAreLimited(t *testing.T) {
	_, dir := image(t)
	n, err := 0, error(nil)
	for ; n <= size/BytesPerFile && err == nil; n++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) || n < size/BytesPerFile*3/4 {
		t.Errorf("%d files: %v", n, err)
	}
}

// However often it is mounted, one device has the image.
func TestMountedAgain(t *testing.T) {
	file, dir := image(t)
	if err := Mount(file, dir); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, file, other)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(other, "f")); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if n := len(devices(t, file)); n != 1 {
		t.Errorf("%d devices", n)
	}
	list, err := Mounts()
	if err != nil || !slices.Contains(list, Mounted{File: file, Dir: dir}) || !slices.Contains(list, Mounted{File: file, Dir: other}) {
		t.Errorf("%v, %v", list, err)
	}
	// Also while something is open in it.
	open, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Unmount(dir), Unmount(other), Unmount(other), open.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	for range 100 { // the kernel lets go of it when it has the time
		if len(devices(t, file)) == 0 {
			break
		}
		syscall.Sync()
	}
	if left := devices(t, file); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// What is in it stays, and its owner.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, file, dir)
	if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestNotMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.img")
	if err := Make(t.Context(), file, 8<<10); err == nil {
		t.Error("a file system of two blocks")
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := Mount(file, t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
