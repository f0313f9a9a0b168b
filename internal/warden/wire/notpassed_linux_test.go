package wire

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutFiles runs f while this process can open no file.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// A message whose descriptors the kernel cannot pass arrives without them, whatever its
// size, and the connection goes on.
func TestNotPassed(t *testing.T) {
	a, b, r, w := pairAndPipe(t)
	for _, size := range []int{1, 2 * maxPacket} {
		if err := a.Send(&Message{Type: Started, Req: 7, Data: make([]byte, size)}, int(r.Fd()), int(w.Fd())); err != nil {
			t.Fatal(err)
		}
		withoutFiles(t, func() {
			m, fds, err := b.Recv()
			if !errors.Is(err, ErrNotPassed) || m == nil || m.Req != 7 || len(m.Data) != size || len(fds) > 0 {
				t.Errorf("%d bytes: %+v with %d descriptors, %v", size, m, len(fds), err)
			}
		})
		if t.Failed() {
			return
		}
		if err := a.Send(&Message{Type: OK, Req: 8}, int(r.Fd())); err != nil {
			t.Fatal(err)
		}
		m, fds, err := b.Recv()
		closeAll(fds)
		if err != nil || m.Req != 8 || len(fds) != 1 {
			t.Errorf("the next message: %+v with %d descriptors, %v", m, len(fds), err)
		}
	}
}

// Descriptors that come with a later packet of a message are refused, also where the
// kernel passes none: there is no message then that could be returned.
func TestNotPassedWithLaterPacket(t *testing.T) {
	a, b, r, _ := pairAndPipe(t)
	rights := unix.UnixRights(int(r.Fd()))
	for _, packet := range []struct{ b, oob []byte }{{[]byte{1, 8, 1}, nil}, {[]byte{0}, rights}} {
		if err := unix.Sendmsg(int(a.f.Fd()), packet.b, packet.oob, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	withoutFiles(t, func() {
		if m, fds, err := b.Recv(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v with %d descriptors, %v", m, len(fds), err)
		}
	})
}
