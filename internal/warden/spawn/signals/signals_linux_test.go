//go:build amd64 || arm64

package signals

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// deafEnv has the test binary send itself every signal ("all"), as a process that is
// deaf; or one, by its number, as a process that a deaf one has made.
const deafEnv = "CORRAL_TEST_DEAF"

var sent = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGSTKFLT,
	syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM,
	syscall.SIGPROF, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR, syscall.SIGSYS, 32, 33, 34, 40, 64,
}

func TestMain(m *testing.M) {
	which := os.Getenv(deafEnv)
	if which == "" {
		os.Exit(m.Run())
	}
	Deafen()
	if which == "all" {
		for range 100 { // also many at a time
			for _, sig := range sent {
				_ = syscall.Kill(os.Getpid(), sig) // the test sees whether this process lives
			}
		}
		time.Sleep(50 * time.Millisecond) // a signal comes by then
		os.Exit(7)
	}
	self = 0 // as in a process that another one made
	n, _ := strconv.Atoi(which)
	_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
	time.Sleep(10 * time.Second)
}

func deafProcess(t *testing.T, which string) syscall.WaitStatus {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), deafEnv+"="+which)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState == nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestDeaf(t *testing.T) {
	if ws := deafProcess(t, "all"); ws.ExitStatus() != 7 {
		t.Errorf("it ended by %v, %d", ws.Signal(), ws.ExitStatus())
	}
}

// What is made and has not executed its program yet does not share the deafness.
func TestDefaultInChild(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGABRT, syscall.SIGPIPE} {
		if ws := deafProcess(t, strconv.Itoa(int(sig))); ws.Signal() != sig {
			t.Errorf("%v: it ended by %v, %d", sig, ws.Signal(), ws.ExitStatus())
		}
	}
}
