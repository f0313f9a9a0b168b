package wire

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (a, b *Packets) {
	t.Helper()
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestPacketLimits(t *testing.T) {
	a, b := pair(t)
	out := []int{1, 1, 1, 1, 1, 1, 1, 1, 1}
	for _, tt := range []struct {
		name  string
		size  int
		files int
		ok    bool
	}{
		{"no file", 10, 0, true},
		{"all files", 10, MaxFiles, true},
		{"a file too many", 10, MaxFiles + 1, false},
		{"the largest message", MaxMessage, 0, true},
		{"too large a message", MaxMessage + 1, 0, false},
		{"after what was refused", 10, 1, true},
	} {
		m := sized(t, tt.size)
		sent := make(chan error, 1)
		go func() { sent <- a.Send(m, out[:tt.files]...) }()
		if !tt.ok {
			if err := <-sent; err == nil {
				t.Errorf("%s: sent", tt.name)
			}
			continue
		}
		got, fds, err := b.Recv()
		closeAll(fds)
		if err != nil || len(got.Data) != len(m.Data) || len(fds) != tt.files {
			t.Errorf("%s: %d files, %v", tt.name, len(fds), err)
		}
		if err := <-sent; err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What a peer may not send is refused as soon as it is seen, and no descriptor
// of it is kept.
func TestPacketsRefused(t *testing.T) {
	type packet struct {
		bytes []byte
		files int
	}
	message := sized(t, 10).Append(nil)
	flagged := func(flag byte, b []byte) []byte { return append([]byte{flag}, b...) }
	endless := []packet{}
	for n := 0; n <= MaxMessage; n += maxPacket - 1 {
		endless = append(endless, packet{bytes: flagged(1, make([]byte, maxPacket-1))})
	}
	for name, packets := range map[string][]packet{
		"another flag":              {{flagged(2, message), 1}},
		"longer than a packet":      {{flagged(0, make([]byte, maxPacket)), 1}},
		"too many files":            {{flagged(0, message), MaxFiles + 1}},
		"files in the middle":       {{flagged(1, message), 1}, {flagged(0, message), 1}},
		"a message without an end":  endless,
		"not a message, with files": {{flagged(0, []byte{1}), 1}},
	} {
		t.Run(name, func(t *testing.T) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPackets(fds[1])
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			pipe := make([]int, 2)
			if err := unix.Pipe2(pipe, unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pipe[0])
			go func() {
				defer unix.Close(fds[0])
				defer unix.Close(pipe[1])
				for _, b := range packets {
					var rights []int
					for range b.files {
						rights = append(rights, pipe[1])
					}
					if err := unix.Sendmsg(fds[0], b.bytes, unix.UnixRights(rights...), nil, 0); err != nil {
						t.Error(err)
					}
				}
			}()
			if _, _, err := p.Recv(); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			end := []unix.PollFd{{Fd: int32(pipe[0])}}
			if n, err := unix.Poll(end, 2000); err != nil || n != 1 || end[0].Revents != unix.POLLHUP {
				t.Errorf("the pipe is still open: %d, %v", n, err)
			}
		})
	}
}

// The limit of a wait ends with the wait: what is sent later has all its time.
func TestSendAfterWait(t *testing.T) {
	defer func(d time.Duration) { sendLimit = d }(sendLimit)
	sendLimit = 100 * time.Millisecond
	a, b := pair(t)
	m := sized(t, maxPacket/2)
	held := 1 // by the socket, and the one that waits
	for ; ; held++ {
		if sent, err := a.TrySend(m); err != nil {
			t.Fatal(err)
		} else if !sent {
			break
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- a.Send(m) }()
	time.Sleep(sendLimit / 10)
	for range held {
		if _, _, err := b.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	time.Sleep(sendLimit * 3 / 2)
	if err := a.Send(m); err != nil {
		t.Errorf("after the time of the first: %v", err)
	}
}

// TrySend sends a message of one packet, or nothing at all.
func TestTrySend(t *testing.T) {
	a, b := pair(t)
	for _, tt := range []struct {
		name      string
		size      int
		files     int
		sent, bad bool
	}{
		{name: "of one packet", size: maxPacket - 1, sent: true},
		{name: "of two packets", size: maxPacket},
		{name: "too large", size: MaxMessage + 1, bad: true},
		{name: "too many files", size: 10, files: MaxFiles + 1, bad: true},
		{name: "small", size: 10, sent: true},
	} {
		sent, err := a.TrySend(sized(t, tt.size), make([]int, tt.files)...)
		if sent != tt.sent || (err != nil) != tt.bad {
			t.Errorf("%s: %v, %v", tt.name, sent, err)
		}
		if sent {
			if m, _, err := b.Recv(); err != nil || len(m.Append(nil)) != tt.size {
				t.Errorf("%s: received %v", tt.name, err)
			}
		}
	}
	b.Close()
	if sent, err := a.TrySend(&Message{Type: OK}); sent || err == nil {
		t.Errorf("to nobody: %v, %v", sent, err)
	}
}
