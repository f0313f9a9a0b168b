package warden

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn"
)

// A command has its mark at its first instruction, also if it is one that gains
// privileges or cannot be traced: nothing that it makes is without.
func TestMarkedBeforeItRuns(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	setuid := filepath.Join(t.TempDir(), "cat")
	b, err := os.ReadFile("/bin/cat")
	if err == nil {
		err = os.WriteFile(setuid, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(setuid, 0o755|os.ModeSetuid)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/bin/cat", setuid} {
		mark := s.newMark()
		if mark == 0 {
			t.Fatal("there are no marks here")
		}
		if got := markOf(t, s, file, mark); got != mark {
			t.Errorf("%s ran with the mark %d, not %d", file, got, mark)
		}
	}
}

// markOf executes cat of its own limits, and returns the mark that it could read.
func markOf(t *testing.T, s *Supervisor, cat string, mark uint64) uint64 {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := s.spawn(&proc{}, cat, []string{"cat", "/proc/self/limits"}, spawn.Attr{
		Dir: "/", Files: [3]int{s.devnull, int(w.Fd()), s.devnull}, RealTime: &unix.Rlimit{Cur: mark, Max: s.hardMark},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Exited() || status.ExitStatus() != 0 {
		t.Fatalf("status %#x, %v", status, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits"), out, 0o600); err != nil {
		t.Fatal(err)
	}
	return readMark(dir)
}
