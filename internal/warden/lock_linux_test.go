package warden

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A child of a warden that was killed, which was about to execute a program, has the lock
// of the directory for a moment. The next warden waits for it.
func TestLockOutlivesItsWarden(t *testing.T) {
	dir := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, LockName))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, ended.Process.Pid)
	if err := lockFile(f); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.2")
	child.ExtraFiles = []*os.File{f}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil {
		t.Error("two wardens have the directory")
	}
	lock.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}
