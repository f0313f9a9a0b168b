//go:build linux

package warden

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/login"
	"github.com/corral-exec/corral/internal/warden/spawn/signals"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// LockName is the file in a host warden's directory that it locks while it
// lives, so that there is one.
const LockName = "warden.lock"

// LogName is the file beside it that a host warden logs to, since its start.
const LogName = "warden.log"

// IdleName is the file beside it in which host wardens note that they ended with
// nothing to keep: a number a line, the one that Hello tells.
const IdleName = "warden.idle"

// linger is how long a host warden that has nothing to do waits for a gateway.
const linger = 5 * time.Second

// Main is the warden's program. It returns the exit code.
func Main(args []string, stderr io.Writer) int {
	if login.Main(args, os.Stdout) {
		return 0
	}
	fs := flag.NewFlagSet("corral-warden", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("dir", "", "dial the gateways whose sockets appear in this `directory`")
	blind := fs.Bool("blind", false, "with -dir: changes in the directory cannot be watched for, as within gVisor")
	stdio := fs.Bool("stdio", false, "serve one gateway at a time on standard input and output")
	host := fs.Bool("host", false, "keep commands of this machine: in the background, one warden a directory, which ends when it has nothing to keep")
	files := fs.Uint64("files", 0, "`number` of files that a process may have open, if the limit is not lower already")
	child := fs.Bool("child", false, "with -host: this is the process in the background")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if (*dir == "") == !*stdio || *host && *dir == "" || fs.NArg() > 0 {
		fmt.Fprintln(stderr, "corral-warden: this program is started by corral; give either -dir DIRECTORY (and -host for the commands of a machine) or -stdio")
		return 2
	}
	log := func(format string, args ...any) { fmt.Fprintf(stderr, "corral-warden: "+format+"\n", args...) }
	if *host && !*child {
		// The parent waits for this process, and so never has to for the
		// warden itself.
		if err := background(*dir); err != nil {
			fmt.Fprintln(stderr, "corral-warden:", err)
			return 1
		}
		return 0
	}
	if *files > 0 {
		if err := limitFiles(*files); err != nil {
			log("cannot limit the number of open files: %v", err)
			return 1
		}
	}
	if err := run(*dir, *stdio, *blind, *host, log); err != nil {
		fmt.Fprintln(stderr, "corral-warden:", err)
		return 1
	}
	return 0
}

// limitFiles lowers the limit of this process and of those that it makes. Set
// by the syscall package, it is not undone in them.
func limitFiles(n uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Max = min(l.Max, n)
	l.Cur = l.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}

// background starts this program again, without ties to who started it.
func background(dir string) error {
	// It may be that of a warden that runs: the one with the lock empties it.
	logFile, err := os.OpenFile(dir+"/"+LogName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make a log: %w", err)
	}
	defer logFile.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	args := append([]string(nil), os.Args...)
	args = append(args, "-child")
	_, err = os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, logFile, logFile}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// setName sets the name that ps shows; started again by /proc/self/exe it is
// "exe". It is that of the first thread, which this need not be: gVisor, which
// has no such file to write to, only has the name of the calling one.
func setName(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err == nil {
		return nil
	}
	b, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
}

func run(dir string, stdio, blind, host bool, log func(string, ...any)) error {
	if err := setName("corral-warden"); err != nil {
		log("cannot set this process's name: %v", err)
	}
	// Small and steady rather than fast: this process allocates little.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)
	// What it does is short and mostly in the kernel: with one processor, one
	// thread does it without waking others, which is where the time goes. On a host
	// one more answers what the kernel asks about commands in a domain, which wait
	// meanwhile.
	processors := 1
	if host {
		processors = 2
	}
	runtime.GOMAXPROCS(processors)
	if err := reserveThreads(); err != nil {
		return err
	}
	opts := Options{ReapAll: true, Processors: processors, Log: log}
	if !host {
		opts.OOMScore, opts.OwnScore = openOOMScore()
		opts.End = func() { os.Exit(0) } // and with it the container
	}
	// Not to be traced or read by what runs beside it as the same user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot close this process to others: %w", err)
	}
	// It would wake a thread for each child, which the reaper waits for anyway.
	signals.Default(syscall.SIGCHLD)
	if !host {
		signals.Deafen() // PID 1: to what its own container can send it
		if err := guard(); err != nil {
			log("%v", err)
		}
	} else {
		signals.Default(signals.RealTime()...)
		signals.RestoreIgnored()
		lock, err := lockDir(dir)
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := os.Truncate(dir+"/"+LogName, 0); err != nil {
			return fmt.Errorf("cannot begin the log: %w", err)
		}
		opts.Cgroup = FindCgroup()
		defer RemoveCgroup(opts.Cgroup)
		opts.Ledger, opts.TakeOver = dir, []string{dir}
	}
	s, err := New(opts)
	if err != nil {
		return err
	}
	defer s.closeLedgers()
	go giveBackMemory(s)
	if stdio {
		// Standard input ends with the engine's connection to the
		// container, and that does not come back.
		in, out := stream(os.Stdin, log), stream(os.Stdout, log)
		return s.Serve(wire.NewFrames(in, out, in))
	}
	if host {
		err = serveUntilIdle(s, dir)
	} else {
		err = s.ServeDir(context.Background(), dir, blind)
	}
	if host && err == nil {
		noteEnd(s, dir, log)
	}
	if host && errors.Is(err, os.ErrNotExist) {
		// No gateway will come; what runs still has its deadlines.
		s.WaitForCommands()
		return nil
	}
	return err
}

// streamBuffer is how much the pipe to or from the engine is to hold, in bytes.
const streamBuffer = 1 << 20

// stream is a standard stream, whose waiting the runtime does: where a system call
// waited, all else would wait with it until the runtime noticed, on one processor. A
// large pipe has those at both ends woken less often.
func stream(f *os.File, log func(string, ...any)) *os.File {
	fd := int(f.Fd())
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, streamBuffer) // it is no pipe, or the system has limits
	if err := unix.SetNonblock(fd, true); err != nil {
		log("cannot have the runtime wait for %s: %v", f.Name(), err)
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// restAfter is how long a warden has nothing to do before it gives back memory.
const restAfter = time.Second

// giveBackMemory returns what a burst of work needed to the system: there is a
// warden in every sandbox, and most rest.
func giveBackMemory(s *Supervisor) {
	for {
		debug.FreeOSMemory()
		<-s.Worked()
		for rested := false; !rested; {
			select {
			case <-s.Worked():
				time.Sleep(restAfter) // not for every message
			case <-time.After(restAfter):
				rested = true
			}
		}
	}
}

var errLocked = errors.New("another warden keeps this directory")

// lockDir makes this the only warden of dir, and says so in the lock file.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+"/"+LockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock: %w", err)
	}
	// Of the open file description: a look with F_OFD_GETLK does not disturb it.
	if err := takeOnceDead(f, lockFile, func() string { return holder(f) }); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("cannot lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", f.Name(), err)
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", f.Name(), err)
	}
	return f, nil
}

// holder is the process ID in the lock file.
func holder(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0) // io.EOF: it is short
	return strings.TrimSpace(string(b[:n]))
}

// maxIdleFile bounds the file IdleName, in bytes.
const maxIdleFile = 4096

// noteEnd notes that this warden ends with nothing to keep: a command that it does
// not know it never started. Without the note, it would be unknown what became of a
// command that it was never told of.
func noteEnd(s *Supervisor, dir string, log func(string, ...any)) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(dir + "/" + IdleName); err == nil && info.Size() > maxIdleFile {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(dir+"/"+IdleName, flags, 0o600)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) { // the directory was removed
			log("cannot note that nothing is kept: %v", err)
		}
		return
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d\n", s.Since()); err != nil {
		log("cannot note that nothing is kept: %v", err)
	}
}

// serveUntilIdle serves the gateways of a directory until there is nothing left to
// keep, and no gateway.
func serveUntilIdle(s *Supervisor, dir string) error {
	ctx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		defer end()
		s.waitUntilIdle(ctx)
	})
	return s.ServeDir(ctx, dir, false)
}

func (s *Supervisor) waitUntilIdle(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for left := false; !left; {
		select {
		case <-s.idle:
			timer.Reset(linger)
			left = s.leave(true)
		case <-timer.C:
			left = s.leave(false)
		case <-ctx.Done():
			return
		}
	}
}
