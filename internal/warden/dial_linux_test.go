package warden

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A warden that has too many files open to look for gateways goes on, and finds them when
// it can.
func TestServeDirWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := os.NewFile(uintptr(socket), "listener")
	defer l.Close()
	name := filepath.Join(dir, "new")
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(socket, 1); err != nil {
		t.Fatal(err)
	}
	failed := make(chan struct{}, 100)
	s, err := New(Options{Log: func(string, ...any) { failed <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeDir(ctx, dir, false) }()
	time.Sleep(50 * time.Millisecond) // until it watches

	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	rerr := os.Rename(name, filepath.Join(dir, SocketName("x")))
	select {
	case err = <-ended:
	case <-failed:
	}
	if lerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); lerr != nil {
		t.Fatal(lerr)
	}
	if rerr != nil || err != nil {
		t.Fatalf("the warden ended: %v (%v)", err, rerr)
	}
	poll := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 10_000); n != 1 {
		t.Errorf("the gateway is not dialled: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A gateway that accepts nothing, and that has been dialled as often as it lets itself,
// does not hold up who dials it again.
func TestDialStoppedGateway(t *testing.T) {
	dir := t.TempDir()
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(dir, SocketName("x"))}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	dialled := make(chan error, 1)
	go func() {
		for {
			conn, err := Dial(dir, SocketName("x"))
			if err != nil {
				dialled <- err
				return
			}
			defer conn.Close()
		}
	}()
	select {
	case err := <-dialled:
		if !errors.Is(err, unix.EAGAIN) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it still waits")
	}
}
