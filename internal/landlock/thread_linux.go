package landlock

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A thread has the filter, and waits for the one thing that it is to do before it
// ends. To install the filter takes longer than all else of a start, so one thread
// is ready for the next.
type thread struct {
	fd    int   // on which the kernel asks, which is watched
	err   error // why there is none
	bare  bool  // and then it has no filter
	ready chan struct{}
	todo  chan func() // closed: nothing
	done  chan struct{}
}

func newThread(w *watch, program []unix.SockFilter) *thread {
	t := &thread{ready: make(chan struct{}), todo: make(chan func())}
	t.done = goThread(func() {
		t.prepare(w, program)
		close(t.ready)
		if f := <-t.todo; f != nil {
			f()
		}
	})
	return t
}

func (t *thread) prepare(w *watch, program []unix.SockFilter) {
	if t.err = giveUpPrivileges(); t.err != nil {
		return
	}
	if t.fd, t.err = install(program); t.err != nil {
		t.bare = true
		return
	}
	if t.err = w.add(t.fd); t.err != nil {
		unix.Close(t.fd)
	}
}

// run has the thread do f, and end.
func (t *thread) run(f func()) {
	done := make(chan struct{})
	t.todo <- func() {
		defer close(done)
		f()
	}
	<-done
}

// end ends a thread that has nothing to do.
func (t *thread) end() {
	close(t.todo)
	<-t.done
}

// take returns a thread that is ready.
func (s *Starter) take(w *watch, program []unix.SockFilter) *thread {
	s.mu.Lock()
	t := s.spare
	s.spare = nil
	s.mu.Unlock()
	if t == nil {
		t = newThread(w, program)
		<-t.ready
	}
	return t
}

// refill makes a thread for the next start.
func (s *Starter) refill(w *watch, program []unix.SockFilter) {
	s.mu.Lock()
	needed := s.watch == w && s.spare == nil && !s.filling
	s.filling = s.filling || needed
	s.mu.Unlock()
	if !needed {
		return
	}
	t := newThread(w, program)
	<-t.ready
	s.mu.Lock()
	s.filling = false
	keep := s.watch == w && t.err == nil
	if keep {
		s.spare = t
	}
	s.mu.Unlock()
	if !keep {
		t.end()
	}
}

func giveUpPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot give up gaining privileges: %w", err)
	}
	return nil
}

// onThread runs f on a thread that ends afterwards.
func onThread(f func()) { <-goThread(f) }

// goThread begins to. The channel is closed when f has returned.
func goThread(f func()) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and it ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			// The first thread of a program never ends. It is held, so that
			// this one is another.
			onThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	return done
}
