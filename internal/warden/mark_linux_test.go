package warden

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forkForLimits executes cat of its own limits, and returns the mark that it
// could read.
func forkForLimits(t *testing.T, s *Supervisor, mark uint64) uint64 {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fd := w.Fd()
	pid, err := s.forkMarked("/bin/cat", []string{"cat", "/proc/self/limits"}, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{uintptr(s.devnull), fd, uintptr(s.devnull)}, Sys: &syscall.SysProcAttr{Setsid: true},
	}, mark)
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

func markingSupervisor(t *testing.T) (*Supervisor, uint64) {
	t.Helper()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	mark := s.newMark()
	if mark == 0 {
		t.Fatal("there are no marks here")
	}
	return s, mark
}

// However late a program with other children comes to mark its child, the child
// has done nothing before.
func TestMarkedBeforeItRuns(t *testing.T) {
	s, mark := markingSupervisor(t)
	late := false
	s.forked = func(int) {
		late = true
		time.Sleep(50 * time.Millisecond)
	}
	if got := forkForLimits(t, s, mark); got != mark {
		t.Errorf("it ran with the mark %d, not %d", got, mark)
	}
	if !late || s.untraceable.Load() {
		t.Error("it was not traced")
	}
}

// It stops at any moment of the looking whether it has.
func TestMarkedAtOnce(t *testing.T) {
	s, mark := markingSupervisor(t)
	for range 300 {
		if got := forkForLimits(t, s, mark); got != mark || s.untraceable.Load() {
			t.Fatalf("it ran with the mark %d, not %d; untraceable: %v", got, mark, s.untraceable.Load())
		}
	}
}

// A program that was killed before its mark has not run, and is executed again.
func TestKilledBeforeItsMark(t *testing.T) {
	s, mark := markingSupervisor(t)
	killed := 0
	s.forked = func(pid int) {
		killed = pid
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	forkForLimits(t, s, mark)
	if err := unix.Kill(killed, 0); err != unix.ESRCH {
		t.Errorf("the first process, %d: %v", killed, err)
	}
}

// filteredThread runs f on a thread whose calls of ptrace have that verdict.
func filteredThread(t *testing.T, verdict uint32, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: it ends with its filter
		if err := forbidPtrace(verdict); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// Where tracing is forbidden commands run nonetheless, and it is tried once.
func TestUntraceable(t *testing.T) {
	s, mark := markingSupervisor(t)
	s.forked = func(int) { t.Error("it was traced") }
	filteredThread(t, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM), func() { forkForLimits(t, s, mark) })
	if !s.untraceable.Load() {
		t.Error("it would be tried with every command")
	}
}

// Where system calls are filtered it is not tried at all.
func TestFiltered(t *testing.T) {
	filteredThread(t, unix.SECCOMP_RET_KILL_PROCESS, func() {
		s, mark := markingSupervisor(t)
		forkForLimits(t, s, mark)
	})
}

// forbidPtrace lets a filter answer ptrace from now on, of this thread and its
// children.
func forbidPtrace(verdict uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: verdict},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// A program that is not there, or is none, is refused as it is without tracing.
func TestForkHeldFails(t *testing.T) {
	s, mark := markingSupervisor(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/nowhere/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]error{"/nowhere/program": unix.ENOENT, plain: unix.EACCES, "/": unix.EACCES} {
		attr := &syscall.ProcAttr{Dir: "/", Files: []uintptr{uintptr(s.devnull)}, Sys: &syscall.SysProcAttr{}}
		if _, err := s.forkMarked(file, []string{file}, attr, mark); err != want {
			t.Errorf("%s: %v, not %v", file, err, want)
		}
	}
	if s.untraceable.Load() {
		t.Error("it is not the tracing that failed")
	}
}

func TestGainsPrivileges(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o755, "setuid": 0o755 | os.ModeSetuid, "setgid": 0o755 | os.ModeSetgid} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, name} {
			if got := gainsPrivileges(path, dir); got != (name != "plain") {
				t.Errorf("%s: %v", path, got)
			}
		}
	}
	if gainsPrivileges(filepath.Join(dir, "missing"), dir) {
		t.Error("a file that is not there gains something")
	}
}
