package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestPackets(t *testing.T) {
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, size := range []int{0, 1, maxPacket - 20, maxPacket, 3*maxPacket + 7, MaxMessage - 100} {
		want := &Message{Type: Start, ID: "x", Data: bytes.Repeat([]byte{1, 0, 2}, size/3+1)[:size]}
		if size == 0 {
			want.Data = nil
		}
		sent := make(chan error, 1)
		go func() { sent <- a.Send(want, int(w.Fd())) }()
		got, fds, err := b.Recv()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err := <-sent; err != nil || len(fds) != 1 {
			t.Fatalf("%d bytes: %v, %d descriptors", size, err, len(fds))
		}
		// cmp takes seconds over the data.
		same := bytes.Equal(want.Data, got.Data)
		want.Data, got.Data = nil, nil
		if !same || !cmp.Equal(want, got) {
			t.Fatalf("%d bytes: changed on the way", size)
		}
		if _, err := unix.Write(fds[0], []byte("hi")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2)
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "hi" {
			t.Fatalf("through the passed descriptor: %q, %v", buf, err)
		}
		closeAll(fds)
	}
	if err := a.Send(&Message{Type: Start, Data: make([]byte, MaxMessage)}); err == nil {
		t.Error("an oversized message was sent")
	}
	a.Close()
	if _, _, err := b.Recv(); err != io.EOF {
		t.Errorf("after close: %v", err)
	}
	b.Close()
}

// What a peer sent before it closed is received, also if the peer did not
// receive everything: the kernel reports that first.
func TestReceiveAfterReset(t *testing.T) {
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Send(&Message{Type: OK}); err != nil { // never received
		t.Fatal(err)
	}
	for _, id := range []string{"x", "y"} {
		if err := a.Send(&Message{Type: Forget, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	for _, id := range []string{"x", "y"} {
		if m, _, err := b.Recv(); err != nil || m.ID != id {
			t.Fatalf("%+v, %v; want %s", m, err, id)
		}
	}
	if _, _, err := b.Recv(); err != io.EOF {
		t.Errorf("after everything: %v", err)
	}
}

// Whatever a peer puts into a packet, Recv returns and keeps no descriptor.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{0}, []byte{1, 2})
	f.Add(append([]byte{1}, (&Message{Type: OK}).Append(nil)...), []byte{0})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		if len(one) > maxPacket || len(two) > maxPacket || len(one) == 0 || len(two) == 0 {
			return
		}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPackets(fds[1])
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, b := range [][]byte{one, two} {
			if err := unix.Sendmsg(fds[0], b, unix.UnixRights(0, 1), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		unix.Close(fds[0])
		for i := 0; i < 3; i++ {
			_, got, err := p.Recv()
			closeAll(got)
			if err != nil {
				return
			}
		}
		t.Fatal("three messages from two packets")
	})
}

// pairAndPipe are two connected ends, and a pipe whose descriptors can be sent.
func pairAndPipe(t *testing.T) (a, b *Packets, r, w *os.File) {
	t.Helper()
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	if r, w, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return a, b, r, w
}

// Surplus descriptors come to us to be closed. Those for which there is no room
// the kernel closes within recvmsg, which must not take long.
func TestSurplusFiles(t *testing.T) {
	a, b, _, w := pairAndPipe(t)
	const most = 253 // SCM_MAX_FD
	fds := make([]int, most)
	for i := range fds {
		fds[i] = int(w.Fd())
	}
	err := a.rc.Write(func(fd uintptr) bool {
		if err := unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
			t.Error(err)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.rc.Read(func(fd uintptr) bool {
		_, oobn, flags, err := transfer(unix.SYS_RECVMSG, fd, b.in, b.oob, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			t.Error(err)
		}
		got, err := parseRights(b.oob[:oobn])
		closeAll(got)
		if err != nil || len(got) != most || flags&unix.MSG_CTRUNC != 0 {
			t.Errorf("%d descriptors, flags %#x, %v", len(got), flags, err)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A peer that takes nothing does not hold up whoever sends for ever.
func TestSendToStuckPeer(t *testing.T) {
	defer func(d time.Duration) { sendLimit = d }(sendLimit)
	sendLimit = 50 * time.Millisecond
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	m := &Message{Type: Output, ID: "a", Data: make([]byte, maxPacket/2)}
	for range 1000 {
		if err = a.Send(m); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after a long while: %v", err)
	}
	if err := a.Send(m); err == nil {
		t.Fatal("the connection goes on within a message")
	}
}

// One that takes its time gets everything.
func TestSendToSlowPeer(t *testing.T) {
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	const n = 40
	sent := make(chan error, 1)
	go func() {
		var err error
		for range n {
			err = errors.Join(err, a.Send(&Message{Type: Output, ID: "a", Data: make([]byte, maxPacket/2)}))
		}
		sent <- err
	}()
	for range n {
		time.Sleep(time.Millisecond)
		if _, _, err := b.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
