package landlock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif. Later kernels may have a longer one.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	address    uint64
	args       [6]uint64
	_          [128]byte
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
	_     [64]byte
}

// receive waits for the kernel to ask. The error is ENOENT if who asked has ended.
func receive(fd int, n *notification) error {
	*n = notification{}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n))); errno != 0 {
		return errno
	}
	return nil
}

// reply lets the call go on, or has it fail. Who asked may have ended.
func reply(fd int, id uint64, refused unix.Errno) {
	r := response{id: id, err: -int32(refused)}
	if refused == 0 {
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
}

// A watch answers what the kernel asks about the processes in domains.
type watch struct {
	program []unix.SockFilter // the filter, the same for all
	flags   uintptr
	secret  uint64 // see filter

	epoll, end int // end can be read from when the watch ends
	running    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	jails  map[int32]*Jail // by descriptor
}

func newWatch(flags uintptr) (*watch, error) {
	var secret [8]byte
	if _, err := unix.Getrandom(secret[:], 0); err != nil {
		return nil, fmt.Errorf("cannot have a random number: %w", err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make an epoll: %w", err)
	}
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, end, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(end)})
		if err != nil {
			unix.Close(end)
		}
	}
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("cannot make an eventfd: %w", err)
	}
	w := &watch{flags: flags, secret: binary.NativeEndian.Uint64(secret[:]), epoll: epoll, end: end, jails: map[int32]*Jail{}}
	w.program = filter(w.secret)
	w.running.Go(w.run)
	return w, nil
}

// setFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS, by which who asks runs on when it
// is answered, on the processor of who answers.
const setFlags = 0x40082104

// add watches the descriptor on which the kernel asks about a command. After the
// end its processes fail to execute anything.
func (w *watch) add(fd int, j *Jail) {
	// Linux 6.6 has it; without it all is the same but slower.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), setFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		unix.Close(fd)
		return
	}
	w.jails[int32(fd)] = j
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		w.running.Go(func() { w.runAlone(fd) }) // a user may have so many of these, and no more
	}
}

func (w *watch) run() {
	events := make([]unix.EpollEvent, 16)
	for {
		count, err := unix.EpollWait(w.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(count, 0)] {
			switch {
			case int(e.Fd) == w.end:
				return
			case e.Events&unix.EPOLLIN != 0:
				w.answer(int(e.Fd))
			default: // no process is left in it
				w.remove(int(e.Fd))
			}
		}
	}
}

// runAlone watches one descriptor without the epoll.
func (w *watch) runAlone(fd int) {
	for {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(w.end), Events: unix.POLLIN}}
		switch _, err := unix.Poll(list, -1); {
		case err == unix.EINTR:
		case err != nil || list[1].Revents != 0:
			return
		case list[0].Revents&unix.POLLIN != 0:
			w.answer(fd)
		default:
			w.remove(fd)
			return
		}
	}
}

func (w *watch) answer(fd int) {
	w.mu.Lock()
	j := w.jails[int32(fd)]
	w.mu.Unlock()
	var n notification
	if j != nil && receive(fd, &n) == nil {
		reply(fd, n.id, j.look(&n))
	}
}

func (w *watch) remove(fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// That it is closed is not enough: a process that is just made has a copy,
	// and with it this would be told again, of a descriptor that is another by
	// then.
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	delete(w.jails, int32(fd))
	unix.Close(fd)
}

// close ends the watch. Who is asked about from then on fails.
func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	_, _ = unix.Write(w.end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for fd := range w.jails {
		unix.Close(int(fd))
	}
	w.jails = nil
	unix.Close(w.epoll)
	unix.Close(w.end)
}

// maxRefused bounds how many refused programs are remembered of a command.
const maxRefused = 8

// A Jail is a command in its domain.
type Jail struct {
	rules *ruleset // its descriptor is closed
	// first: all of its processes execute its first program, which is no loader.
	// The watch alone uses it.
	first bool

	mu      sync.Mutex
	refused []string
}

// Refused are the programs that the command, or what it started, tried to execute
// and the kernel refused: the first few. Nil of a nil Jail.
func (j *Jail) Refused() []string {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.refused)
}

func (j *Jail) note(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.refused) < maxRefused && !slices.Contains(j.refused, path) {
		j.refused = append(j.refused, path)
	}
}

// look answers a question: what to refuse the call with, or 0.
func (j *Jail) look(n *notification) unix.Errno {
	proc := "/proc/" + strconv.FormatUint(uint64(n.pid), 10)
	for i := range architectures {
		c := &architectures[i]
		if c.arch != n.arch {
			continue
		}
		switch call := uint32(n.number); {
		case call == c.execve:
			j.first = false
			j.lookAt(proc, n, unix.AT_FDCWD, n.args[0])
			return 0 // what Landlock says counts
		case call == c.execveat:
			j.first = false
			j.lookAt(proc, n, int32(n.args[0]), n.args[1])
			return 0
		case slices.Contains(c.mmap, call), slices.Contains(c.mmapAny, call):
			if j.first {
				return 0
			}
			return j.lookAtLoader(proc, n.args[4], slices.Contains(c.mmap, call))
		}
	}
	return unix.EACCES
}

// lookAtLoader refuses a loader that was executed itself to load anything: only
// then it is what the process executes. Of another process it is the
// interpreter.
func (j *Jail) lookAtLoader(proc string, fd uint64, known bool) unix.Errno {
	if isLoader, err := j.rules.isLoader(proc); err != nil {
		return unix.EACCES // it has ended, or is none that can be looked at
	} else if !isLoader {
		return 0
	}
	name, err := "", error(nil)
	if known {
		name, err = os.Readlink(proc + "/fd/" + strconv.FormatUint(uint64(uint32(fd)), 10))
	}
	if name == "" || err != nil {
		name, _ = os.Readlink(proc + "/exe")
	}
	if name != "" {
		j.note(name)
	}
	return unix.EACCES
}

// lookAt notes a program that Landlock is about to refuse. What the process says
// may change before the kernel reads it; this is for people.
func (j *Jail) lookAt(proc string, n *notification, dir int32, address uint64) {
	name := readString(int(n.pid), address)
	if name == "" {
		return // a descriptor, or nothing that can be executed
	}
	switch {
	case filepath.IsAbs(name):
		name = proc + "/root" + name
	case dir == unix.AT_FDCWD:
		name = proc + "/cwd/" + name
	default:
		name = proc + "/fd/" + strconv.Itoa(int(dir)) + "/" + name
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // there is none
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return
	}
	f := file{st.Dev, st.Ino}
	if j.rules.programs[f] || j.rules.loaders[f] { // a loader gets no further than its first file
		return
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return
	}
	if !slices.ContainsFunc(j.rules.directories, func(d string) bool { return strings.HasPrefix(path, d) }) {
		j.note(path)
		return
	}
	if in := interpreter(path); in != "" && unix.Stat(in, &st) == nil && !j.rules.programs[file{st.Dev, st.Ino}] &&
		!slices.ContainsFunc(j.rules.directories, func(d string) bool { return strings.HasPrefix(in, d) }) {
		j.note(in)
	}
}

// interpreter is that of a script; empty if it is none.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 256)
	k, _ := io.ReadFull(f, b)
	line, ok := bytes.CutPrefix(b[:k], []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return ""
	}
	real, err := filepath.EvalSymlinks(words[0])
	if err != nil {
		return words[0]
	}
	return real
}

// readString reads a string of a process, page by page; empty if it cannot be read.
func readString(pid int, address uint64) string {
	const page = 4096
	buf := make([]byte, 0, unix.PathMax)
	for len(buf) < unix.PathMax && address != 0 {
		size := min(page-int(address%page), unix.PathMax-len(buf))
		part := buf[len(buf) : len(buf)+size]
		local := []unix.Iovec{{Base: &part[0]}}
		local[0].SetLen(size)
		n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
		if err != nil || n <= 0 {
			return ""
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return string(buf[:len(buf)+end])
		}
		buf = buf[:len(buf)+n]
		address += uint64(n)
	}
	return ""
}
