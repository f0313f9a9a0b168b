package warden

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// nobody is no user of this machine, so that no process counts for it.
const nobody = 65533

// startWarden starts this program as a warden of a user that can be given a limit
// of processes, which root cannot; limit gives it that.
func startWarden(t *testing.T) (cmd *exec.Cmd, conn *wire.Frames, said *bytes.Buffer, limit func()) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Clean(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "warden")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(program)
	cmd.Env, cmd.Dir = []string{asWarden + "=1"}, "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	said = new(bytes.Buffer)
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { ours.Close() })
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return cmd, wire.NewFrames(out, in, in), said, func() {
		t.Helper()
		if _, err := ours.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
	}
}

// A warden goes on when no process and no thread is to be had any more, however
// much it is asked for: the Go runtime ends a program that wants a thread and
// does not get it.
func TestNoThreadToSpare(t *testing.T) {
	cmd, conn, said, limit := startWarden(t)
	send := func(m *wire.Message) {
		t.Helper()
		m.Epoch = "e"
		if err := conn.Send(m); err != nil {
			t.Fatalf("the warden is gone: %v\n%s", err, said)
		}
	}
	start := func(n uint64, id string) {
		t.Helper()
		send(&wire.Message{Type: wire.Start, Req: n, ID: id, Args: []string{"/bin/sleep", "60"}, Dir: "/"})
	}
	answers := make(chan *wire.Message, 4096)
	go func() {
		defer close(answers)
		for {
			m, _, err := conn.Recv()
			if err != nil {
				return
			}
			answers <- m
		}
	}()
	next := func(what string, is func(m *wire.Message) bool) *wire.Message {
		t.Helper()
		for limit := time.After(20 * time.Second); ; {
			select {
			case m, ok := <-answers:
				if !ok {
					_ = cmd.Wait() // how it ended is in what it said
					t.Fatalf("the warden ended instead of saying %s:\n%.2000s", what, said)
				}
				if is(m) {
					return m
				}
			case <-limit:
				t.Fatalf("the warden does not say %s", what)
			}
		}
	}
	send(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
	next("hello", func(m *wire.Message) bool { return m.Type == wire.Hello })
	const commands = 12
	for i := range commands {
		start(2, fmt.Sprint("c", i))
		next("that it runs", func(m *wire.Message) bool { return m.Type == wire.Started })
	}
	pid := cmd.Process.Pid
	limit()
	had := threadsOf(t, pid)
	const rounds = 10
	for i := range commands * rounds {
		send(&wire.Message{Type: wire.Signal, Req: 3, ID: fmt.Sprint("c", i%commands), Signal: uint64(unix.SIGCONT)})
	}
	start(4, "one more")
	refused := next("that there is no process to be had", func(m *wire.Message) bool { return m.Req == 4 })
	if refused.Type != wire.Error || refused.Code != wire.CodeUnavailable {
		t.Errorf("a command for which there is no process: %+v", refused)
	}
	for i := range commands {
		send(&wire.Message{Type: wire.Signal, Req: 5, ID: fmt.Sprint("c", i), Signal: uint64(unix.SIGKILL)})
	}
	for range commands {
		next("that a command was killed", func(m *wire.Message) bool { return m.Type == wire.Exited })
	}
	if now := threadsOf(t, pid); now != had || had < threads {
		t.Errorf("%d threads, and then %d; %d should be there from the start", had, now, threads)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for range answers { //nolint:revive // to its end
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the warden: %v\n%s", err, said)
	}
}

func threadsOf(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
