package users

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/sandbox/files"
)

// An engine's runtime that is another user gets through the directory of mounts, whatever
// the umask was of the program that made it.
func TestMountsCanBeReached(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	m, err := NewMapping(files.User{UID: 1, GID: 2}, files.User{UID: 3, GID: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Chmod(idmapDir, 0o700); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_, release, err := m.Mount(fd, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(idmapDir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What kept mounts from being mapped may pass: here it is that too many files are open.
func TestMappingIsTriedAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := t.TempDir()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err := CheckMapped(dir, false)
	if rerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); rerr != nil {
		t.Fatal(rerr)
	}
	if err == nil {
		t.Fatal("with no descriptors left it can be mapped")
	}
	if err := CheckMapped(dir, false); err != nil {
		t.Errorf("after that passed: %v", err)
	}
}
