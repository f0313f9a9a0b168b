package wardenexec

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watcher waits for the output of all processes at once. Most commands say little or
// nothing: for those, a goroutine and a place in the runtime's poller for each of their
// streams cost more than what they are for.
type watcher struct {
	epoll int
	end   int // an eventfd: close writes it
	wg    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	last    uint64             // the last token; 0 is end's
	watched map[uint64]*source // by token: descriptors have successors
}

// watching is the watcher of all executors of this program, as long as there are any: it
// takes a thread.
var watching struct {
	mu    sync.Mutex
	users int
	*watcher
}

// useWatcher returns the watcher of this program, for one leave.
func useWatcher() (*watcher, error) {
	watching.mu.Lock()
	defer watching.mu.Unlock()
	if watching.users == 0 {
		var err error
		if watching.watcher, err = newWatcher(); err != nil {
			return nil, err
		}
	}
	watching.users++
	return watching.watcher, nil
}

// leave ends the use of the watcher. What is still watched was removed before.
func (*watcher) leave() {
	watching.mu.Lock()
	defer watching.mu.Unlock()
	if watching.users--; watching.users == 0 {
		watching.close()
	}
}

// newWatcher begins to watch. The goroutine waits in the kernel and not by the
// runtime's poller: an epoll instance that is itself polled takes a lock of the
// whole machine for everything that is added to it, and another process can
// make that take tenths of a second.
func newWatcher() (*watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot watch output: %w", err)
	}
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, end, &unix.EpollEvent{Events: unix.EPOLLIN})
	}
	if err != nil {
		unix.Close(epoll)
		if end >= 0 {
			unix.Close(end)
		}
		return nil, fmt.Errorf("cannot watch output: %w", err)
	}
	w := &watcher{epoll: epoll, end: end, watched: map[uint64]*source{}}
	w.wg.Go(w.run)
	return w, nil
}

// close ends watching.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true // from here on only run uses the descriptors
	w.mu.Unlock()
	_, _ = unix.Write(w.end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a counter far from full
	w.wg.Wait()
	unix.Close(w.end)
	unix.Close(w.epoll)
}

// add begins to watch s, and tells it of what there is already.
func (w *watcher) add(s *source) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	token := w.last
	s.token = token
	w.watched[token] = s
	return w.control(unix.EPOLL_CTL_ADD, s, unix.EPOLLIN)
}

// mute ends being told of what there is to read: of the end alone, until unmute,
// which tells of what there is by then.
func (w *watcher) mute(s *source) error   { return w.change(s, 0) }
func (w *watcher) unmute(s *source) error { return w.change(s, unix.EPOLLIN) }

func (w *watcher) change(s *source, events uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.watched[s.token]; !there {
		return nil
	}
	return w.control(unix.EPOLL_CTL_MOD, s, events)
}

// remove ends watching s, which is about to be closed: the warden keeps the same
// pipe open, so closing alone does not end it.
func (w *watcher) remove(s *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.watched[s.token]; there {
		delete(w.watched, s.token)
		_ = w.control(unix.EPOLL_CTL_DEL, s, 0) // it is watched
	}
}

// control calls epoll_ctl. mu is held. Events are told once each time there are
// any, as long as the descriptor lives.
func (w *watcher) control(op int, s *source, events uint32) error {
	if w.closed {
		return fmt.Errorf("cannot watch output: %w", os.ErrClosed)
	}
	event := unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(uint32(s.token)), Pad: int32(s.token >> 32)}
	var err error
	cerr := s.end.Control(func(fd uintptr) {
		// It never waits, as nothing polls w.epoll: the runtime need not know.
		if _, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(w.epoll), uintptr(op), fd, uintptr(unsafe.Pointer(&event)), 0, 0); errno != 0 {
			err = errno
		}
	})
	if err = errors.Join(err, cerr); err != nil {
		return fmt.Errorf("cannot watch output: %w", err)
	}
	return nil
}

func (w *watcher) run() {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // it is no epoll instance any more
		}
		for _, e := range events[:n] {
			token := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if token == 0 {
				return
			}
			w.mu.Lock()
			s := w.watched[token]
			w.mu.Unlock()
			if s != nil {
				s.pi.ready(s, e.Events&unix.EPOLLIN != 0)
			}
		}
	}
}
