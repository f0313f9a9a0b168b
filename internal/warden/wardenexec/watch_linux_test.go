package wardenexec

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

func init() { roles["hog"] = hogEpoll }

// hogEpoll is the process that TestWatchWhileEpollIsBusy starts. It adds epoll
// instances with many descriptors to another, again and again, which the kernel
// does for one process of the machine at a time.
func hogEpoll() {
	ctl := func(ep, op, fd int) {
		_ = unix.EpollCtl(ep, op, fd, &unix.EpollEvent{Events: unix.EPOLLIN}) // as far as it goes
	}
	var eps [22]int
	for i := range eps {
		eps[i], _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	}
	outer, middle, inner := eps[0], eps[1], eps[2:]
	for range 18_000 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			break
		}
		for _, ep := range inner {
			ctl(ep, unix.EPOLL_CTL_ADD, fd)
		}
	}
	for _, ep := range inner {
		ctl(middle, unix.EPOLL_CTL_ADD, ep)
	}
	os.Stdout.WriteString("ready\n")
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ctl(outer, unix.EPOLL_CTL_ADD, middle)
		ctl(outer, unix.EPOLL_CTL_DEL, middle)
	}
}

// Watching an output does not wait for another process, even one of a
// container, and nothing else here would if it did.
func TestWatchWhileEpollIsBusy(t *testing.T) {
	hog := exec.Command(os.Args[0])
	hog.Env = append(os.Environ(), roleEnv+"=hog")
	out, err := hog.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = hog.Process.Kill()
		_ = hog.Wait() // killed
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ticks atomic.Int64
	begun, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		close(begun)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				ticks.Add(1)
			}
		}
	}()
	<-begun
	took, during := time.Duration(0), int64(0)
	for range 10 {
		time.Sleep(2 * time.Millisecond)
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		pi := &pipes{}
		pi.addOutput(&descriptor{fd: p[0]}, corral.Stdout)
		s := pi.outputs[0]
		from, before := time.Now(), ticks.Load()
		if err := w.add(s); err != nil {
			t.Fatal(err)
		}
		took += time.Since(from)
		during += ticks.Load() - before
		w.remove(s)
		s.end.Close()
		closePipes(p[1])
	}
	close(stop)
	<-stopped
	t.Logf("adding took %v, in which another goroutine ran %d times", took, during)
	if took > time.Second {
		t.Error("it waits for the other process")
	}
	if took > 100*time.Millisecond && during < 10 {
		t.Error("others waited with it")
	}
}

// Of an output that is muted its end is told alone, until it is not.
func TestMute(t *testing.T) {
	w, err := newWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	pi := &pipes{}
	pi.addOutput(&descriptor{fd: p[0]}, corral.Stdout)
	s := pi.outputs[0]
	s.pumping = true // it is told by s.wake
	defer s.end.Close()
	told := func(within time.Duration) bool {
		select {
		case <-s.wake:
			return true
		case <-time.After(within):
			return false
		}
	}
	write := func() {
		t.Helper()
		if _, err := unix.Write(p[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	const soon, never = 10 * time.Second, 50 * time.Millisecond
	if err := w.add(s); err != nil {
		t.Fatal(err)
	}
	write()
	if !told(soon) {
		t.Fatal("not told of a byte")
	}
	for range 3 {
		if err := w.mute(s); err != nil {
			t.Fatal(err)
		}
		write()
		if told(never) {
			t.Fatal("told of a byte while it is muted")
		}
		if err := w.unmute(s); err != nil {
			t.Fatal(err)
		}
		if !told(soon) {
			t.Fatal("not told of what came while it was muted")
		}
	}
	if err := w.mute(s); err != nil {
		t.Fatal(err)
	}
	closePipes(p[1])
	if !told(soon) {
		t.Error("not told of the end")
	}
	w.remove(s)
	if err := w.unmute(s); err != nil {
		t.Errorf("to change what is not watched any more: %v", err)
	}
}
