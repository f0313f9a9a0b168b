package listen

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestUnix(t *testing.T) {
	dir := testdir.New(t)
	path := filepath.Join(dir, "s.sock")
	l, err := Unix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %s", l.Addr())
	}
	if _, err := Unix(path); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("a second listener: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first listener, after that: %v", err)
	} else {
		conn.Close()
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	// What a killed gateway leaves is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	if l, err = Unix(path); err != nil {
		t.Fatal(err)
	}
	l.Close()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "s.sock.lock" {
		t.Errorf("left: %v, %v", left, err)
	}
	// A file that is no socket is not replaced.
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Unix(path); err == nil {
		t.Error("a file was replaced")
	}
	// A path that is too long, also for the place where the socket is made first.
	for n := 100; n < 110; n++ {
		long := filepath.Join(dir, strings.Repeat("x", n-len(dir)-len("//gateway.sock")))
		if err := os.Mkdir(long, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := Unix(filepath.Join(long, "gateway.sock"))
		if err == nil {
			l.Close()
		}
		if (err == nil) != (n <= 105) || err != nil && !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("a path of %d bytes: %v", n, err)
		}
	}
}

func TestActivated(t *testing.T) {
	if l, err := Activated(); err != nil || len(l) != 0 {
		t.Errorf("without systemd: %v, %v", l, err)
	}
}
