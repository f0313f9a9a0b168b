package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHandOver(t *testing.T) {
	near, far := pair(t, "unix")
	client, accepted := pair(t, "tcp")
	if err := HandOver(near.(*net.UnixConn), accepted.(syscall.Conn)); err != nil {
		t.Fatal(err)
	}
	accepted.Close()
	got, err := Receive(far.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(got, "hello"); err != nil {
		t.Fatal(err)
	}
	got.Close() // it was the last one
	if text, err := io.ReadAll(client); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
}

// What is no connection is refused, and stays open in no case.
func TestReceive(t *testing.T) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	for name, fds := range map[string][]int{
		"none": nil, "a pipe": pipe[:1], "a listener": {listener}, "datagrams": {datagrams},
		"two": {listener, datagrams}, "many": {pipe[0], pipe[1], listener, datagrams, pipe[0], pipe[1], listener, datagrams},
	} {
		near, far := pair(t, "unix")
		before := openFiles(t)
		if _, _, err := near.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		if c, err := Receive(far.(*net.UnixConn)); err == nil && name != "a listener" {
			t.Errorf("%s: %T", name, c)
		} else if err == nil {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ENOTCONN) {
				t.Errorf("%s: read: %v", name, err)
			}
			c.Close()
		}
		if after := openFiles(t); after != before {
			t.Errorf("%s: %d files were open, and %d are now", name, before, after)
		}
	}
	near, far := pair(t, "unix")
	near.Close()
	if _, err := Receive(far.(*net.UnixConn)); err == nil || strings.Contains(err.Error(), "panic") {
		t.Errorf("of one that went: %v", err)
	}
	_, far = pair(t, "unix")
	_ = far.SetReadDeadline(time.Now())
	if _, err := Receive(far.(*net.UnixConn)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("of one that says nothing: %v", err)
	}
	for _, fd := range append(pipe[:], listener, datagrams) {
		_ = unix.Close(fd)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
