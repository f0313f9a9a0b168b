package warden

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// inNamespace is set where this program is the first of a PID namespace.
const inNamespace = "CORRAL_TEST_NAMESPACE"

// The number of a process that ended between the look for a tree and the signal
// to it may be somebody else's by then: that one hears nothing.
func TestNumberUsedAgain(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		firstOfNamespace(t)
		return
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
	); err != nil {
		t.Fatal(err)
	}
	for name, noPidfd := range map[string]bool{"pidfd": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				if useNumberAgain(t, noPidfd) {
					return
				}
			}
			t.Error("no process got a number again")
		})
	}
}

// firstOfNamespace runs the test in namespaces of its own.
func firstOfNamespace(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+"/without") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// useNumberAgain reports whether it could: a thread of the test may get the number
// first, and keeps it.
func useNumberAgain(t *testing.T, noPidfd bool) bool {
	s, err := New(Options{Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.noPidfd.Store(noPidfd)
	p := execute(t, s, "trap '' TERM; setsid sleep 1000 & while :; do wait; done")
	victim := task{}
	for deadline := time.Now().Add(time.Minute); victim.PID == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command has no child")
		}
		for _, m := range s.members(p) {
			if m.PID != p.pid && m.Session == m.PID {
				victim = m
			}
		}
	}
	defer func() {
		if f := s.signal(p.id, int(unix.SIGKILL)); f != nil {
			t.Error(f)
		}
	}()
	var bystander *exec.Cmd
	listed := false
	s.listed = func([]task) {
		if !listed {
			listed = true
			bystander = replace(t, victim)
		}
	}
	if f := s.signal(p.id, int(unix.SIGTERM)); f != nil {
		t.Error(f)
	}
	if !listed {
		t.Fatal("nothing was listed")
	}
	if bystander == nil {
		return false
	}
	ended := make(chan error, 1)
	go func() { ended <- bystander.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the next process with the number %d was signalled: %v", victim.PID, err)
	case <-time.After(200 * time.Millisecond):
		if err := bystander.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
	}
	return true
}

// nowhere is a connection to nobody.
type nowhere struct{}

func (nowhere) Send(*wire.Message, ...int) error    { return nil }
func (nowhere) Recv() (*wire.Message, []int, error) { return nil, nil, io.EOF }
func (nowhere) PassesFiles() bool                   { return false }
func (nowhere) Close() error                        { return nil }

// execute starts a shell that nobody listens to.
func execute(t *testing.T, s *Supervisor, shell string) *proc {
	t.Helper()
	p, f := s.start(&client{s: s, conn: newOutbox(nowhere{})}, &wire.Message{ID: fmt.Sprintf("p%d", time.Now().UnixNano()), Args: []string{"/bin/sh", "-c", shell}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}, nil)
	if f != nil {
		t.Fatal(f)
	}
	return p
}

// replace ends a process, and starts another that gets its number. It returns nil
// if a thread of the test has it.
func replace(t *testing.T, victim task) *exec.Cmd {
	if err := unix.Kill(victim.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); unix.Kill(victim.PID, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d was not reaped", victim.PID)
		}
	}
	time.Sleep(20 * time.Millisecond) // starts are told to 1/100 s
	for range 100 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(victim.PID-1)), 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == victim.PID {
			return cmd
		}
		_ = cmd.Process.Kill() // it has not been waited for, so it is there
		_ = cmd.Wait()
		if _, err := os.Stat(fmt.Sprint("/proc/self/task/", victim.PID)); err == nil {
			t.Logf("a thread got the number %d", victim.PID)
			return nil
		}
	}
	t.Fatalf("no process got the number %d", victim.PID)
	return nil
}
