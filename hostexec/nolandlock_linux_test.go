package hostexec_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// withoutLandlock has the kernel say, to this thread and what it makes, that there
// is no Landlock.
func withoutLandlock() error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	filter := []unix.SockFilter{
		load(0),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// On a kernel without Landlock a command runs and its result says that nothing is
// enforced; one for which that is required does not run. The kernel is this one, of
// which a filter answers as such a kernel does.
func TestWithoutLandlock(t *testing.T) {
	const variable = "CORRAL_TEST_WITHOUT_LANDLOCK"
	if os.Getenv(variable) == "" {
		done := make(chan error)
		var out []byte
		go func() { // on a thread that ends
			runtime.LockOSThread()
			err := withoutLandlock()
			if err == nil {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutLandlock$", "-test.v")
				cmd.Env = append(os.Environ(), variable+"=1")
				out, err = cmd.CombinedOutput()
			}
			done <- err
		}()
		if err := <-done; err != nil || !strings.Contains(string(out), "PASS: TestWithoutLandlock") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if text, err := hostexec.Enforcement(); err == nil || !strings.Contains(err.Error(), "has no Landlock") {
		t.Errorf("%q, %v", text, err)
	}
	dir := testdir.New(t)
	e, err := hostexec.New(hostexec.Config{StateDir: filepath.Join(dir, "state"), Workspace: dir, InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d := corral.Domain{Programs: []string{program(t, "true")}, Loaders: loaders, Writable: []string{dir}, Lost: []string{"It loses this."}}
	p, err := e.Start(t.Context(), corral.Command{Args: []string{program(t, "touch"), "a"}, Domain: &d})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(t.Context())
	if err != nil || !exit.Success() || p.Info().Enforced != nil {
		t.Errorf("%v, %v, %v", exit, p.Info().Enforced, err)
	}
	if w := strings.Join(p.Info().Warnings, "\n"); !strings.Contains(w, "is not enforced: the kernel has no Landlock") {
		t.Errorf("it says %q", w)
	} else if strings.Contains(w, "loses") {
		t.Errorf("nothing is in force, and it says %q", w)
	}
	d.Required = true
	if _, err := e.Start(t.Context(), corral.Command{Args: []string{program(t, "touch"), "b"}, Domain: &d}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "has no Landlock") {
		t.Errorf("required: %v", err)
	}
	if _, err := os.Stat(dir + "/b"); err == nil {
		t.Error("it ran, although what is required cannot be had")
	}
}
