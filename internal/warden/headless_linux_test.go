package warden

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// asHeadless is set where this program is to go on without its first thread.
const asHeadless = "CORRAL_TEST_AS_HEADLESS"

// The main goroutine stays on the first thread.
func init() {
	if os.Getenv(asHeadless) != "" {
		runtime.LockOSThread()
	}
}

func loseFirstThread() {
	on := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(on)
		for {
			_ = unix.Pause()
		}
	}()
	<-on
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// A process whose first thread has ended runs, and is killed like any other.
func TestKillWithoutFirstThread(t *testing.T) {
	s, gw, theirs := unserved(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(theirs) }()
	ask(t, gw, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
	m, _ := ask(t, gw, &wire.Message{Type: wire.Start, Req: 2, ID: "x", Dir: "/", Flags: wire.FlagMerge,
		Args: []string{"/proc/self/exe"}, Env: []string{asHeadless + "=1"}}, relay(t)...)
	if m.Type != wire.Started {
		t.Fatalf("%+v", m)
	}
	pid := int(m.PID)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s, ok := lookAt(strconv.Itoa(pid))
		if ok && s.State == 'Z' {
			break
		}
		if !ok || time.Now().After(end) {
			t.Fatalf("its first thread has not ended: %+v", s)
		}
	}
	if m, _ := ask(t, gw, &wire.Message{Type: wire.Signal, Req: 3, ID: "x", Signal: uint64(unix.SIGKILL)}); m.Type != wire.OK {
		_ = unix.Kill(pid, unix.SIGKILL)
		t.Errorf("it is not killed: %+v", m)
	}
	gw.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.Close()
}
