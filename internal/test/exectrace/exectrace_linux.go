package exectrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/landlock"
	"github.com/corral-exec/corral/internal/warden/spawn"
)

// A Command is what to run. Its standard input is empty.
type Command struct {
	Args    []string // Args[0] is the path of the program
	Env     []string
	Dir     string
	Timeout time.Duration // after which everything is killed
	// Domain is put in force for it; nil: none.
	Domain *confine.Domain
}

// A Result is what became of a command.
type Result struct {
	// Programs are the files that were executed, the command's own first,
	// absolute and without symbolic links. A script counts, not what
	// interprets it.
	Programs []string
	Stdout   []byte
	Stderr   []byte
	// Status is that of the command itself.
	Status   syscall.WaitStatus
	TimedOut bool
	// Refused are the programs that the kernel refused by the domain.
	Refused []string
}

// Run runs the command and waits for it and for all of its descendants, those
// too that it left behind.
func Run(c Command) (Result, error) {
	var files [3]*os.File
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
		if err != nil {
			return Result{}, fmt.Errorf("cannot make a file for %s: %w", name, err)
		}
		files[i] = os.NewFile(uintptr(fd), name)
		defer files[i].Close()
	}

	t, refused, err := trace(c, files)
	if err != nil {
		return Result{}, err
	}
	r := Result{Programs: t.programs, Status: t.status, TimedOut: t.killed, Refused: refused}
	for i, to := range map[int]*[]byte{1: &r.Stdout, 2: &r.Stderr} {
		if *to, err = io.ReadAll(io.NewSectionReader(files[i], 0, maxOutput)); err != nil {
			return Result{}, fmt.Errorf("cannot read what it wrote: %w", err)
		}
	}
	return r, nil
}

// trace runs the command, in its domain if it has one, and follows all of it.
func trace(c Command, files [3]*os.File) (t *tracer, refused []string, err error) {
	// The thread that starts a traced process is its tracer.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := spawn.Attr{Dir: c.Dir, Env: c.Env, Trace: true}
	for i, f := range files {
		attr.Files[i] = int(f.Fd())
	}
	var got landlock.Started
	starter := new(landlock.Starter)
	defer starter.Close()
	if c.Domain.Limits() {
		got, err = starter.Start(c.Domain, c.Args[0], c.Args, attr)
	} else {
		got.PID, err = spawn.Start(c.Args[0], c.Args, &attr)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot start %s: %w", c.Args[0], err)
	}
	t = &tracer{root: got.PID, live: map[int]bool{got.PID: true}}
	timer := time.AfterFunc(c.Timeout, t.kill)
	defer timer.Stop()
	if ended := starter.OnThread(func() { err = t.follow() }); ended != nil || err != nil {
		t.kill()
		return nil, nil, errors.Join(ended, err)
	}
	return t, got.Jail.Refused(), nil
}

const (
	maxOutput = 1 << 20

	atExecfn = 31 // AT_EXECFN of getauxval(3)
)

type tracer struct {
	root     int
	programs []string
	status   syscall.WaitStatus

	mu     sync.Mutex
	live   map[int]bool
	killed bool
}

const options = unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL

// follow returns when no process is left.
func (t *tracer) follow() error {
	for {
		var ws syscall.WaitStatus
		pid, err := t.next()
		reported := 0
		if err == nil {
			// Not blocking: what it had to report is gone if another of its threads has
			// ended it meanwhile, and its end is told after that of its threads.
			reported, err = syscall.Wait4(pid, &ws, unix.WALL|unix.WNOTHREAD|unix.WNOHANG, nil)
		}
		switch {
		case errors.Is(err, syscall.EINTR), err == nil && reported == 0:
			continue
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("cannot wait for traced processes: %w", err)
		}
		if err := t.step(pid, ws); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot trace process %d: %w", pid, err)
		}
	}
}

// next waits until a traced process has something to report. This thread may have
// started other processes before, which are left to those who wait for them.
func (t *tracer) next() (pid int, err error) {
	for ; ; time.Sleep(time.Millisecond) {
		pid, err := spawn.Ended(unix.P_ALL, 0, unix.WALL|unix.WNOTHREAD)
		if err != nil || t.traces(pid) {
			return pid, err
		}
	}
}

// traces tells a process that is traced from another child of this thread. One that
// was killed at once may never have reported itself.
func (t *tracer) traces(pid int) bool {
	t.mu.Lock()
	known := t.live[pid]
	t.mu.Unlock()
	if known {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone: its parent has waited for it
	_, tracer, found := strings.Cut(string(status), "\nTracerPid:\t")
	return found && !strings.HasPrefix(tracer, "0\n")
}

// step handles one report on a process and lets it go on.
func (t *tracer) step(pid int, ws syscall.WaitStatus) error {
	if !ws.Stopped() {
		if pid == t.root {
			t.status = ws
		}
		t.mu.Lock()
		delete(t.live, pid)
		t.mu.Unlock()
		return nil
	}
	signal := int(ws.StopSignal())
	switch {
	case ws.StopSignal() == syscall.SIGTRAP && ws.TrapCause() == unix.PTRACE_EVENT_EXEC:
		if err := t.record(pid); err != nil {
			return err
		}
		signal = 0
	case ws.StopSignal() == syscall.SIGTRAP && ws.TrapCause() > 0: // a fork: the new process reports itself
		signal = 0
	case pid == t.root && len(t.programs) == 0: // the first stop: it has just been executed
		if err := syscall.PtraceSetOptions(pid, options); err != nil {
			return err
		}
		if err := t.record(pid); err != nil {
			return err
		}
		signal = 0
	case !t.known(pid): // a new process begins with a SIGSTOP that nobody sent
		signal = 0
	}
	return syscall.PtraceCont(pid, signal)
}

func (t *tracer) known(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.live[pid]
	t.live[pid] = true
	if t.killed {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return known
}

func (t *tracer) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killed = true
	for pid := range t.live {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// record notes what file the process has just executed.
func (t *tracer) record(pid int) error {
	name, err := executed(pid)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(name, "/proc/"): // its own /proc/self/exe, say: it may be another's by now, or ours
		if name, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			return err
		}
	case !filepath.IsAbs(name):
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			return err
		}
		name = filepath.Join(dir, name)
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	t.programs = append(t.programs, name)
	return nil
}

// executed is the name that was given to execve. The kernel leaves it in the
// new program's memory and says where; for a script /proc/PID/exe would be the
// interpreter.
func executed(pid int) (string, error) {
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return "", err
	}
	const word = bits.UintSize / 8
	at := func(i int) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(vector[i:]))
		}
		return binary.NativeEndian.Uint64(vector[i:])
	}
	for i := 0; i+2*word <= len(vector); i += 2 * word {
		if at(i) != atExecfn {
			continue
		}
		return readString(pid, int64(at(i+word)))
	}
	return "", fmt.Errorf("process %d does not say what it executes", pid)
}

func readString(pid int, address int64) (string, error) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "", err
	}
	defer memory.Close()
	// The string is the last of what is on the stack, so that the read may be short.
	buf := make([]byte, unix.PathMax)
	n, err := memory.ReadAt(buf, address)
	if n == 0 {
		return "", err
	}
	return unix.ByteSliceToString(buf[:n]), nil
}
