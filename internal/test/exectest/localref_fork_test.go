//go:build linux

package exectest

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/procfs"
)

// fork starts the program with its streams and everything that looks after it.
func (p *refProcess) fork(program string, argv, env []string) error {
	var theirs, ours []*os.File // ours are read
	defer func() { closeAll(theirs) }()
	attr := &os.ProcAttr{Dir: p.info.Dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true, Credential: p.cred}}
	streams := []corral.Stream{corral.Stdout}
	switch {
	case p.cmd.TTY != nil:
		master, slave, err := pty.Open()
		if err != nil {
			return err
		}
		size := *p.cmd.TTY
		if size == (corral.Size{}) {
			size = corral.DefaultSize
		}
		if !p.bad("ignores the terminal's size") {
			if err := pty.Setsize(master, &pty.Winsize{Rows: size.Rows, Cols: size.Cols}); err != nil {
				return err
			}
		}
		if !p.bad("erases bytes of characters") {
			mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
			if err != nil {
				return err
			}
			mode.Iflag |= unix.IUTF8
			if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
				return err
			}
		}
		p.stdin, p.tty = master, master
		ours, theirs = []*os.File{master}, []*os.File{slave}
		attr.Files = []*os.File{slave, slave, slave}
		attr.Sys.Setctty = !p.bad("does not make the terminal the controlling one")
		if p.cred != nil {
			if err := slave.Chown(int(p.cred.Uid), -1); err != nil {
				return err
			}
		}
		if p.bad("has a pipe for standard error on a terminal") {
			r, w := pipe()
			ours, theirs = append(ours, r), append(theirs, w)
			attr.Files[2] = w
			streams = append(streams, corral.Stderr)
		}
	default:
		in, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		if p.cmd.Stdin || p.bad("keeps stdin open without being asked") {
			_ = in.Close()
			in, p.stdin = pipe()
		}
		r, w := pipe()
		theirs, ours = []*os.File{w, in}, []*os.File{r}
		if p.bad("keeps the command's end of stdin") {
			theirs, p.kept = theirs[:1], in
		}
		attr.Files = []*os.File{in, w, w}
		if !p.cmd.MergeStderr || p.bad("ignores MergeStderr") {
			r2, w2 := pipe()
			theirs, ours = append(theirs, w2), append(ours, r2)
			attr.Files[2] = w2
			streams = append(streams, corral.Stderr)
		}
	}
	if p.bad("passes a descriptor too many") {
		attr.Files = append(attr.Files, attr.Files[1])
	}
	if p.bad("ignores SIGPIPE in commands") {
		argv = append([]string{"sh", "-c", `trap "" PIPE; exec "$@"`, "sh", program}, argv[1:]...)
		program = "/bin/sh"
	}
	if p.bad("does not pass the name of the program") {
		argv = append([]string{program}, argv[1:]...)
	}
	if p.bad("does not change the directory") {
		attr.Dir = "/tmp"
	}
	if p.cmd.Shell != "" && p.bad("wraps the shell in a shell") {
		argv = []string{"sh", "-c", `"$@"; exit $?`, "sh", program, argv[1], argv[2]}
	}
	child, err := os.StartProcess(program, argv, attr)
	if err != nil {
		closeAll(ours)
		if p.stdin != nil && p.tty == nil {
			_ = p.stdin.Close()
		}
		return err
	}
	p.child, p.info.PID = child, child.Pid
	for _, f := range ours {
		if inode, ok := inodeOf(f); ok && p.tty == nil {
			p.pipes = append(p.pipes, inode)
		}
	}
	pumped := make(chan struct{})
	p.all = append(p.all, p)
	p.work.Go(func() { p.pump(ours, streams, pumped) })
	p.work.Go(func() { p.reap(pumped, ours) })
	if p.cmd.Timeout > 0 && !p.bad("ignores time-outs") {
		p.work.Go(p.expire)
	}
	if p.bad("leaks a goroutine") {
		p.work.Go(func() { <-p.over })
	}
	if p.bad("leaks a descriptor") {
		_, _ = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if p.bad("leaks a zombie") {
		_, _, _ = syscall.StartProcess("/bin/true", []string{"true"}, nil)
	}
	return nil
}

func pipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err) // no descriptors left: nothing to test with
	}
	return r, w
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func inodeOf(f *os.File) (string, bool) {
	var inode string
	c, err := f.SyscallConn()
	if err != nil {
		return "", false
	}
	err = c.Control(func(fd uintptr) { inode, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	return inode, err == nil && inode != ""
}

// pump copies everything to the log; after the log's end, to nowhere, so that
// what the command left behind can go on writing.
func (p *refProcess) pump(ours []*os.File, streams []corral.Stream, pumped chan<- struct{}) {
	var wg sync.WaitGroup
	for i, f := range ours {
		stream := streams[i]
		if p.bad("takes standard error for standard output") {
			stream = corral.Stdout
		}
		wg.Go(func() {
			defer f.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := f.Read(buf)
				if p.bad("does not drain") {
					time.Sleep(300 * time.Millisecond * new(Target).slack())
				}
				if n > 0 {
					p.log.append(stream, buf[:n])
				}
				if err != nil {
					return // io.EOF, or EIO of a terminal without anybody
				}
				if p.bad("stops reading after the end") && p.ended() {
					<-p.over
				}
			}
		})
	}
	wg.Wait()
	p.drained.Store(true)
	close(pumped)
}

// reap sees the command's end, drains its output and publishes its exit.
func (p *refProcess) reap(pumped <-chan struct{}, ours []*os.File) {
	if p.bad("ends with its output") {
		<-pumped
		p.log.end()
	}
	state, err := p.child.Wait()
	if err != nil {
		panic(err) // nobody else waits for it
	}
	ended := time.Now()
	left := p.orphans()
	if p.bad("is slow to notice the end") {
		time.Sleep(2 * drainMost * new(Target).slack())
	}
	drain := time.After(corral.DrainLimit * min(new(Target).slack(), 5)) // on a busy machine pump has not read yet what was written
	if p.bad("waits for the last descendant") {
		drain = nil
	}
	if !p.bad("does not drain") {
		select {
		case <-pumped:
		case <-drain:
		}
	}
	if p.bad("closes the output after the drain") {
		closeAll(ours)
	}
	if p.bad("kills what is left after the end") {
		_ = p.signalTree(syscall.SIGKILL)
	}
	p.log.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	if p.kept != nil {
		_ = p.kept.Close()
	}
	if p.stdin != nil && p.tty == nil {
		_ = p.stdin.Close()
	}
	p.exit = exitOf(state.Sys().(syscall.WaitStatus))
	p.exit.StartedAt, p.exit.EndedAt = p.info.StartedAt, ended
	p.exit.Reason = corral.ReasonExited
	if !p.expired { // else they are about to die
		p.exit.Orphans = left
	}
	if p.expired && !p.bad("gives no reason") {
		p.exit.Reason = corral.ReasonTimeout
	}
	switch {
	case p.bad("calls every end a time-out") && p.cmd.Timeout > 0:
		p.exit.Reason = corral.ReasonTimeout
	case p.bad("always exits with 0"):
		p.exit.Code, p.exit.Signal = 0, 0
	case p.bad("makes 128+n of signals") && p.exit.Signal != 0:
		p.exit.Code, p.exit.Signal = 128+int(p.exit.Signal), 0
	case p.bad("makes signals of 128+n") && p.exit.Code > 128 && p.exit.Code < 160:
		p.exit.Code, p.exit.Signal = -1, corral.Signal(p.exit.Code-128)
	case p.bad("has no times"):
		p.exit.EndedAt = p.exit.StartedAt
	}
	close(p.done)
}

// orphans returns the rest of the tree, after the end of the command.
func (p *refProcess) orphans() (pids []int) {
	for _, pid := range p.tree() {
		if s, err := procfs.Read(fmt.Sprintf("/proc/%d", pid)); err == nil && !s.Ended() {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	switch {
	case p.bad("hides orphans"):
		return nil
	case p.bad("takes others for its orphans"):
		return append(pids, os.Getpid())
	}
	return pids
}

func exitOf(ws syscall.WaitStatus) corral.Exit {
	if ws.Signaled() {
		return corral.Exit{Code: -1, Signal: corral.Signal(ws.Signal())}
	}
	return corral.Exit{Code: ws.ExitStatus()}
}

// expire ends the tree when the command's time is up.
func (p *refProcess) expire() {
	timeout := p.cmd.Timeout
	if p.bad("knows only whole seconds") {
		timeout = timeout.Truncate(time.Second) + time.Second
	}
	select {
	case <-time.After(timeout):
	case <-p.done:
		return
	}
	p.mu.Lock()
	p.expired = true
	p.mu.Unlock()
	if p.bad("drops the output on a time-out") {
		p.log.drop()
	}
	grace := p.cmd.Grace
	if grace == 0 || p.bad("always gives the default grace") {
		grace = corral.DefaultGrace
	}
	if grace > 0 && !p.bad("gives no grace") {
		_ = p.signalTree(syscall.SIGTERM) // nothing left is as good
		over := time.After(grace)
		for len(p.tree()) > 0 {
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-over:
			}
			break
		}
	}
	if p.bad("only asks nicely") {
		return
	}
	_ = p.signalTree(syscall.SIGKILL)
}
