package landlock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/procfs"
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

// A watch has a thread with the filter, on which the processes of all domains are
// made, and answers what the kernel asks about them.
type watch struct {
	secret   uint64 // see filter
	tid      int    // of the thread
	listener int
	running  sync.WaitGroup
	calls    handoff // that the thread makes
	isLoader func(file) bool

	// starting is held while a process is made, until it is in jails: its first
	// question may come before.
	starting sync.Mutex

	mu    sync.Mutex
	jails map[int]*Jail // by their first processes
}

// newWatch begins a watch for which isLoader says which files are loaders.
func newWatch(isLoader func(file) bool) (*watch, error) {
	var secret [8]byte
	if _, err := unix.Getrandom(secret[:], 0); err != nil {
		return nil, fmt.Errorf("cannot have a random number: %w", err)
	}
	w := &watch{secret: binary.NativeEndian.Uint64(secret[:]), isLoader: isLoader, jails: map[int]*Jail{}}
	if err := w.calls.open(); err != nil {
		return nil, err
	}
	ready := make(chan error)
	w.running.Go(func() { w.thread(ready, nil) })
	if err := <-ready; err != nil {
		w.calls.close()
		return nil, fmt.Errorf("the kernel does not ask about system calls: %w", err)
	}
	w.running.Go(w.run)
	return w, nil
}

// thread installs the filter and makes the calls that it is given. It keeps its
// thread, which ends with it, and the filter with the thread. The first thread of a
// program never ends, so that another takes its place; left, if it is given, is
// closed when it has one.
func (w *watch) thread(ready chan<- error, left chan<- struct{}) {
	runtime.LockOSThread()
	if left != nil {
		close(left)
	}
	if w.tid = unix.Gettid(); w.tid == os.Getpid() {
		left := make(chan struct{})
		w.running.Go(func() { w.thread(ready, left) })
		<-left
		runtime.UnlockOSThread()
		return
	}
	err := errNoFilter
	if len(architectures) > 0 {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err == nil {
		w.listener, err = install(filter(w.secret))
	}
	ready <- err
	if err == nil {
		w.calls.make()
	}
}

// errEnded is the error of a call after close.
var errEnded = errors.New("it has ended")

// start makes a process on the thread, by a function that returns its number.
func (w *watch) start(j *Jail, make func() (pid int, err error)) (err error) {
	w.starting.Lock()
	defer w.starting.Unlock()
	if ended := w.calls.call(func() { j.pid, err = make() }); ended != nil || err != nil {
		return errors.Join(ended, err)
	}
	f, err := executed(uint32(j.pid))
	j.first = err == nil && !w.isLoader(f)
	w.mu.Lock()
	w.jails[j.pid] = j
	w.mu.Unlock()
	return nil
}

func (w *watch) remove(j *Jail) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jails[j.pid] == j {
		delete(w.jails, j.pid)
	}
}

// run answers until the end. After it processes in a domain fail to execute anything.
func (w *watch) run() {
	defer unix.Close(w.listener)
	for {
		var n notification
		switch err := receive(w.listener, &n); {
		case err == nil && int(n.pid) == w.tid: // see close
			reply(w.listener, n.id, unix.EPERM)
			return
		case err == nil:
			reply(w.listener, n.id, w.look(&n))
		case err != unix.EINTR && err != unix.ENOENT:
			return
		}
	}
}

// close ends the watch. Who is asked about from then on fails.
func (w *watch) close() {
	// The kernel asks about the thread itself, which tells run to end.
	_ = w.calls.call(func() { _, _, _ = unix.Syscall6(unix.SYS_EXECVEAT, ^uintptr(0), 0, 0, 0, 0, 0) })
	w.calls.end()
	w.running.Wait()
	w.calls.close()
}

// look answers a question: what to refuse the call with, or 0.
func (w *watch) look(n *notification) unix.Errno {
	for i := range architectures {
		c := &architectures[i]
		if c.arch != n.arch {
			continue
		}
		switch call := uint32(n.number); {
		case call == c.execve, call == c.execveat:
			// Every thread of a process is of its session, and none leaves that of
			// which it is the leader: first is seen to.
			if j := w.registered(n.pid); j != nil {
				j.first = false
				if call == c.execve {
					j.lookAt(n, unix.AT_FDCWD, n.args[0])
				} else {
					j.lookAt(n, int32(n.args[0]), n.args[1])
				}
			}
			return 0 // what Landlock says counts
		case slices.Contains(c.mmap, call), slices.Contains(c.mmapAny, call):
			return w.lookAtLoader(n, slices.Contains(c.mmap, call))
		}
	}
	return unix.EACCES
}

// lookAtLoader refuses a loader that was executed itself to load anything: only
// then it is what the process executes. Of another process it is the
// interpreter. Who may execute a loader, since a rule names it, is known.
func (w *watch) lookAtLoader(n *notification, known bool) unix.Errno {
	if j := w.bySession(n.pid); j != nil && j.first {
		return 0
	}
	f, err := executed(n.pid)
	if err != nil {
		return unix.EACCES // it has ended, or is none that can be looked at
	}
	if !w.isLoader(f) {
		return 0
	}
	j := w.registered(n.pid)
	if j != nil && j.rules.programs[f] {
		return 0
	}
	proc, name := procDir(n.pid), ""
	if known {
		name, err = os.Readlink(proc + "/fd/" + strconv.FormatUint(uint64(uint32(n.args[4])), 10))
	}
	if name == "" || err != nil {
		name, _ = os.Readlink(proc + "/exe")
	}
	if name != "" {
		j.note(name)
	}
	return unix.EACCES
}

// maxParents bounds a search for whose process one is.
const maxParents = 64

// owner is the command of a thread. That is the command of its session, or else of
// the session of its nearest ancestor that has one. Nil: there is none any more.
func (w *watch) owner(tid uint32) *Jail {
	for range maxParents {
		if j := w.bySession(tid); j != nil {
			return j
		}
		if tid = parent(tid); tid <= 1 {
			return nil
		}
	}
	return nil
}

// registered is owner. It waits for who is just being made, and may have asked before
// it is known.
func (w *watch) registered(tid uint32) *Jail {
	if j := w.owner(tid); j != nil {
		return j
	}
	w.starting.Lock()
	//lint:ignore SA2001 to wait is the point
	w.starting.Unlock()
	return w.owner(tid)
}

func (w *watch) bySession(tid uint32) *Jail {
	session, err := unix.Getsid(int(tid))
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jails[session]
}

// parent is the process from which a thread's process is; 0 if it has ended.
func parent(tid uint32) uint32 {
	s, err := procfs.Read(procDir(tid))
	if err != nil {
		return 0
	}
	return uint32(s.Parent)
}

// executed is what a process executes.
func executed(tid uint32) (file, error) {
	var st unix.Stat_t
	err := unix.Stat(procDir(tid)+"/exe", &st)
	return file{st.Dev, st.Ino}, err
}

func procDir(tid uint32) string { return "/proc/" + strconv.FormatUint(uint64(tid), 10) }
