package probes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Limit is something that the kernel counts for each user. Two sandboxes try it:
// one holds as much of it as it gets, and the other needs a little.
type Limit struct {
	ID  string // neighbours/NAME
	Has string // what is counted
	Why string // the kernel's name for the limit

	// Hold takes as much as it gets, for as long as this process lives, and says
	// how much that was.
	Hold func(dir string) (string, error)
	// Need takes a little. An error says that there is none left.
	Need func() error
}

// Limits are all of them, in the order in which one process after the other can
// hold them: watches take instances.
func Limits() []Limit {
	return []Limit{
		{"neighbours/in-flight", "descriptors that were sent over sockets and not received", "RLIMIT_NOFILE of the sender, user_struct.unix_inflight; unix(7), ETOOMANYREFS", holdInFlight, needInFlight},
		{"neighbours/pipes", "pages of pipes: a pipe beyond the limit holds 4 or 8 KiB and not 64", "fs.pipe-user-pages-soft; pipe(7)", holdPipes, needPipe},
		{"neighbours/inotify-watches", "inotify watches", "fs.inotify.max_user_watches; inotify(7)", holdWatches, needWatch},
		{"neighbours/inotify", "inotify instances", "fs.inotify.max_user_instances; inotify(7)", holdInotify, needInotify},
		{"neighbours/message-queues", "bytes of POSIX message queues", "RLIMIT_MSGQUEUE; mq_overview(7)", holdQueues, needQueue},
		{"neighbours/signals", "signals that are queued", "RLIMIT_SIGPENDING; sigqueue(3)", holdSignals, needSignal},
		{"neighbours/processes", "processes and threads, for one that limits itself to 100", "RLIMIT_NPROC; fork(2)", holdThreads, needProcess},
		{"neighbours/locked-memory", "locked shared memory, for one that limits itself to 64 KiB", "RLIMIT_MEMLOCK; shmctl(2), SHM_LOCK", holdLocked, needLocked},
		{"neighbours/epoll", "watches of epoll", "fs.epoll.max_user_watches; epoll(7)", holdEpoll, needEpoll},
		{Keys, "keys; the calls are allowed for this, which they are not in a sandbox", "kernel.keys.maxkeys; keyrings(7)", holdKeys, needKey},
	}
}

// Keys is the limit for which calls have to be allowed that a sandbox does not
// have.
const Keys = "neighbours/keys"

// hold holds a limit until the input ends, and need tells whether something is
// left of it.
func hold(args []string, stdin io.Reader, stdout io.Writer) error {
	l, err := limitOf(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "hold-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	what, err := l.Hold(dir)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, "holds "+what); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func need(args []string, stdout io.Writer) error {
	l, err := limitOf(args)
	if err != nil {
		return err
	}
	v := held("there is enough")
	if err := l.Need(); err != nil {
		v = escaped("%v", err)
	}
	return json.NewEncoder(stdout).Encode(v)
}

func limitOf(args []string) (Limit, error) {
	for _, l := range Limits() {
		if len(args) == 1 && l.ID == args[0] {
			return l, nil
		}
	}
	return Limit{}, errUsage
}

// mostTries bounds how often something is tried that has no limit after all. That
// is so of most of them in gVisor, whose memory it is then.
func mostTries() int {
	if gvisor() {
		return 10_000
	}
	return 10_000_000
}

// holdAll takes until it gets no more, for which one of the errors is expected.
func holdAll(what string, take func(i int) error, full ...error) (string, error) {
	most := mostTries()
	for i := range most {
		err := take(i)
		if err == nil {
			continue
		}
		for _, f := range full {
			if errors.Is(err, f) {
				return fmt.Sprintf("%d %s: %v", i, what, err), nil
			}
		}
		return "", fmt.Errorf("%s %d: %w", what, i, err)
	}
	return fmt.Sprintf("%d %s, and gets more", most, what), nil
}

func holdInFlight(string) (string, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	const batch = 250
	var many []int
	for range batch {
		many = append(many, null)
	}
	rights := unix.UnixRights(many...)
	const enough = 1000 // more than any limit of files
	to := -1
	return holdAll(fmt.Sprintf("times %d descriptors", batch), func(i int) error {
		if i == enough {
			return unix.EMFILE
		}
		for {
			if to < 0 {
				p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				to = p[0]
			}
			err := unix.Sendmsg(to, []byte{0}, rights, nil, unix.MSG_DONTWAIT)
			if !errors.Is(err, unix.EAGAIN) {
				return err
			}
			to = -1
		}
	}, unix.ETOOMANYREFS, unix.EMFILE)
}

func needInFlight() error {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Sendmsg(p[0], []byte{0}, unix.UnixRights(p[1]), nil, 0)
}

// usualPipe is how much a pipe holds as long as its user has pages left.
const usualPipe = 64 << 10

// holdPipes makes pipes as large as they can be, and of what is left usual ones,
// until a pipe is smaller than that.
func holdPipes(string) (string, error) {
	large := true
	return holdAll("pipes", func(i int) error {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		if i == 1000 {
			return unix.EMFILE
		}
		if large {
			_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, 1<<20)
			large = err == nil
			if !errors.Is(err, unix.EPERM) {
				return err
			}
		}
		if n, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETPIPE_SZ, 0); err != nil || n < usualPipe {
			return errors.Join(unix.EPERM, err)
		}
		return nil
	}, unix.EPERM, unix.EMFILE)
}

func needPipe() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	n, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETPIPE_SZ, 0)
	if err == nil && n < usualPipe {
		err = fmt.Errorf("a pipe holds %d bytes and not %d", n, usualPipe)
	}
	return err
}

func holdWatches(dir string) (string, error) {
	const files = 4000 // for each instance
	names := make([]string, files)
	for i := range names {
		names[i] = filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(names[i], nil, 0o600); err != nil {
			return "", err
		}
	}
	in := -1
	return holdAll("watches", func(i int) (err error) {
		if i == 1_000_000 {
			return unix.EMFILE
		}
		if i%files == 0 {
			if in, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
				return err
			}
		}
		_, err = unix.InotifyAddWatch(in, names[i%files], unix.IN_MODIFY)
		return err
	}, unix.ENOSPC, unix.EMFILE)
}

func needWatch() error {
	in, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(in, "/tmp", unix.IN_MODIFY)
	return err
}

func holdInotify(string) (string, error) {
	return holdAll("instances", func(int) error { return needInotify() }, unix.EMFILE)
}

func needInotify() error {
	_, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	return err
}

// largeQueue opens a message queue of the largest size, which has no name then.
func largeQueue(i int) error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("corral-%d-%d", os.Getpid(), i))
	if err != nil {
		return err
	}
	attr := struct {
		flags, maxmsg, msgsize, curmsgs int64
		_                               [4]int64
	}{maxmsg: 10, msgsize: 8192}
	_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR|unix.O_EXCL, 0o600, uintptr(unsafe.Pointer(&attr)), 0, 0)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	return errnoErr(errno)
}

func holdQueues(string) (string, error) {
	if gvisor() && needQueue() == nil {
		return "0 queues: nobody gets any in gVisor", nil
	}
	return holdAll("queues", largeQueue, unix.EMFILE, unix.ENOSPC)
}

func needQueue() error {
	err := largeQueue(0)
	if gvisor() && (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES)) { // nobody gets any
		return nil
	}
	return err
}

// queueSignal queues a signal for this thread, which has blocked it.
func queueSignal() error {
	const signal, queued = 40, -1 // SI_QUEUE
	info := struct {
		signo, errno, code, _ int32
		pid, uid              int32
		_                     [104]byte
	}{signo: signal, code: queued, pid: int32(os.Getpid()), uid: int32(os.Getuid())}
	_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getpid()), uintptr(unix.Gettid()), signal, uintptr(unsafe.Pointer(&info)), 0, 0)
	return errnoErr(errno)
}

func blockSignals() error {
	runtime.LockOSThread() // for ever
	set := unix.Sigset_t{Val: [16]uint64{1 << 39}}
	return unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

func holdSignals(string) (string, error) {
	if err := blockSignals(); err != nil {
		return "", err
	}
	return holdAll("signals", func(i int) error {
		if i == 1_000_000 {
			return unix.EAGAIN
		}
		return queueSignal()
	}, unix.EAGAIN)
}

func needSignal() error {
	if err := blockSignals(); err != nil {
		return err
	}
	return queueSignal()
}

func holdThreads(string) (string, error) {
	const threads = 150
	ready := make(chan struct{})
	for range threads {
		go func() {
			runtime.LockOSThread()
			ready <- struct{}{}
			for {
				_ = unix.Pause()
			}
		}()
	}
	for range threads {
		<-ready
	}
	return fmt.Sprintf("%d threads", threads), nil
}

func needProcess() error {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NPROC, &l)
	if err == nil {
		l.Cur = min(l.Max, 100)
		err = unix.Setrlimit(unix.RLIMIT_NPROC, &l)
	}
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"corral-escape", "list"}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 2, 2}})
	if err == nil {
		_, err = syscall.Wait4(pid, nil, 0, nil)
	}
	return err
}

func lockShared(size int) error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	const lock = 11 // SHM_LOCK
	_, err = unix.SysvShmCtl(id, lock, nil)
	return err
}

func holdLocked(string) (string, error) {
	const size = 1 << 20
	return "1 MiB", lockShared(size)
}

func needLocked() error {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	if err == nil {
		l.Cur = min(l.Max, 64<<10)
		err = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l)
	}
	if err != nil {
		return err
	}
	return lockShared(4 << 10)
}

func holdEpoll(string) (string, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return "", err
	}
	targets := int(min(files.Cur, 50_000)) - 1000 // for each epoll
	if targets < 0 {
		return "", errors.New("there are too few files to watch")
	}
	fds := make([]int, targets)
	for i := range fds {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return "", err
		}
		fds[i] = fd
	}
	ep := -1
	return holdAll("watches", func(i int) (err error) {
		if i%targets == 0 {
			if ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
				return err
			}
		}
		return unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fds[i%targets], &unix.EpollEvent{Events: unix.EPOLLIN})
	}, unix.ENOSPC, unix.ENOMEM)
}

func needEpoll() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
}

func addKey(i int) error {
	_, err := unix.AddKey("user", fmt.Sprintf("corral-%d-%d", os.Getpid(), i), []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func holdKeys(string) (string, error) {
	runtime.LockOSThread()
	return holdAll("keys", addKey, unix.EDQUOT, unix.ENOSYS, unix.EACCES, unix.EPERM)
}

func needKey() error {
	err := addKey(0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) { // nobody gets any
		return nil
	}
	return err
}
