package wardenexec

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watcher waits for the output of all processes of an executor at once. Most
// commands say little or nothing: for those, a goroutine and a place in the
// runtime's poller for each of their streams cost more than what they are for.
type watcher struct {
	f  *os.File // an epoll instance, which the runtime's poller waits for
	rc syscall.RawConn
	wg sync.WaitGroup

	mu      sync.Mutex
	last    uint64             // the last token
	watched map[uint64]*source // by token: descriptors have successors
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot watch output: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot watch output: %w", err)
	}
	f := os.NewFile(uintptr(fd), "output watcher")
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot watch output: %w", err)
	}
	w := &watcher{f: f, rc: rc, watched: map[uint64]*source{}}
	w.wg.Go(w.run)
	return w, nil
}

// close ends watching. No source must be added any more.
func (w *watcher) close() {
	w.f.Close()
	w.wg.Wait()
}

// add begins to watch s, and tells it of what there is already.
func (w *watcher) add(s *source) error {
	w.mu.Lock()
	w.last++
	token := w.last
	s.token = token
	w.watched[token] = s
	w.mu.Unlock()
	// Told once of each change, as long as the descriptor lives.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(uint32(token)), Pad: int32(token >> 32)}
	return w.control(func(epoll, fd uintptr) error {
		// The runtime polls this epoll instance: to find loops of such, the
		// kernel adds to one at a time on the whole machine, and one may take
		// long. So the runtime has to know, unlike with unix.EpollCtl.
		_, _, errno := unix.Syscall6(unix.SYS_EPOLL_CTL, epoll, unix.EPOLL_CTL_ADD, fd, uintptr(unsafe.Pointer(&event)), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}, s)
}

// remove ends watching s, which is about to be closed: the warden keeps the same
// pipe open, so closing alone does not end it.
func (w *watcher) remove(s *source) {
	w.mu.Lock()
	_, there := w.watched[s.token]
	delete(w.watched, s.token)
	w.mu.Unlock()
	if there {
		_ = w.control(func(epoll, fd uintptr) error {
			// It never blocks: the runtime need not know.
			_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_CTL, epoll, unix.EPOLL_CTL_DEL, fd, 0, 0, 0)
			return nil
		}, s) // the watcher is closed: so much the better
	}
}

func (w *watcher) control(do func(epoll, fd uintptr) error, s *source) error {
	var err error
	cerr := w.rc.Control(func(epoll uintptr) {
		scerr := s.end.Control(func(fd uintptr) { err = do(epoll, fd) })
		err = errors.Join(err, scerr)
	})
	if err = errors.Join(err, cerr); err != nil {
		return fmt.Errorf("cannot watch output: %w", err)
	}
	return nil
}

func (w *watcher) run() {
	var events [64]unix.EpollEvent
	for {
		n := 0
		err := w.rc.Read(func(fd uintptr) bool {
			got, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
			if errno == 0 {
				n = int(got)
			}
			return n > 0
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:n] {
			w.mu.Lock()
			s := w.watched[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
			w.mu.Unlock()
			if s != nil {
				s.pi.ready(s, e.Events&unix.EPOLLIN != 0)
			}
		}
	}
}
