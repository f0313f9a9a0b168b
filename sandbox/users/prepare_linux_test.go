package users

import (
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/sandbox/files"
)

// Nothing is mounted over the files of this machine, whatever number the engine says: the
// process that had it may have ended, and another one got it.
func TestPrepareOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	p := exec.Command("sleep", "60")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	prepare := func() error {
		return Prepare(p.Process.Pid, dir, Account{}, files.User{UID: 1000, GID: 1000}, files.User{UID: 1879048192, GID: 1879048192})
	}
	if err := prepare(); err == nil {
		t.Error("it counts as a container's")
		for _, file := range []string{"/etc/passwd", "/etc/group", "/proc/sys/kernel/random/boot_id"} {
			_ = unix.Unmount(file, unix.MNT_DETACH)
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	if err := prepare(); err != nil {
		t.Errorf("of what has ended: %v", err)
	}
}
