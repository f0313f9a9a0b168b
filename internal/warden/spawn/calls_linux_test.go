//go:build amd64 || arm64

package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestCalls(t *testing.T) {
	dir := t.TempDir()
	mkdir := func(name string) Call {
		path, err := syscall.BytePtrFromString(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, path)
		here := unix.AT_FDCWD
		return Call{unix.SYS_MKDIRAT, [6]uintptr{uintptr(here), uintptr(unsafe.Pointer(path)), 0o700}}
	}
	bad := Call{unix.SYS_DUP, [6]uintptr{1 << 30}}
	if err := Calls(); err != nil {
		t.Errorf("none: %v", err)
	}
	if err := Calls(mkdir("a"), bad, mkdir("b")); err != unix.EBADF {
		t.Errorf("one that fails: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err == nil {
		t.Error("a call after one that failed was made")
	}
	// Of its own: what it changes of itself is not changed here.
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := syscall.BytePtrFromString("/")
	if err != nil {
		t.Fatal(err)
	}
	kept = append(kept, root)
	if err := Calls(Call{unix.SYS_CHDIR, [6]uintptr{uintptr(unsafe.Pointer(root))}}); err != nil {
		t.Error(err)
	}
	if after, err := os.Getwd(); err != nil || after != before {
		t.Errorf("the directory is %s, %v", after, err)
	}
	// 0 is the process group that the child leads.
	err = Calls(Call{Number: unix.SYS_SETSID}, Call{unix.SYS_KILL, [6]uintptr{0, uintptr(unix.SIGKILL)}})
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a killed one: %v", err)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("children are left: %v", err)
	}
}

var kept []*byte // what calls point to
