package warden

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// letters is a connection that keeps what it is to send, as an outbox does.
type letters struct {
	wire.Conn
	sent []*wire.Message
}

func (l *letters) Send(m *wire.Message, _ ...int) error {
	l.sent = append(l.sent, m)
	return nil
}

func testStream(t *testing.T, s *spare) *streams {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[1]) })
	st := newStreams("x", -1, p[:1], false, s)
	t.Cleanup(func() { st.release(false) })
	return st
}

// room is how much more output a stream may hold.
func (st *streams) room() (n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.roomLocked(n + chunk) {
		n += chunk
	}
	return n
}

// Who prints much holds much while there is spare memory, and everybody the window.
func TestSpareMemory(t *testing.T) {
	s := new(spare)
	a, b, c := testStream(t, s), testStream(t, s), testStream(t, s)
	const rest = allSpare - 2*(maxHeld-window)
	for _, tt := range []struct {
		st   *streams
		want int64
	}{{a, maxHeld}, {b, maxHeld}, {c, window + rest}, {testStream(t, s), window}} {
		if got := tt.st.room(); got != tt.want {
			t.Errorf("room for %d bytes, not %d", got, tt.want)
		}
	}
	for _, st := range []*streams{a, b, c} {
		st.release(false)
	}
	if used := s.used.Load(); used != 0 {
		t.Errorf("%d bytes are lent to nobody", used)
	}
}

// A buffer is read into again when its output was acknowledged, and not before. After an
// Attach the same output may be on its way twice, so it never is.
func TestBuffersAreUsedAgain(t *testing.T) {
	st := testStream(t, new(spare))
	conn := new(letters)
	st.attach(conn, 0)
	conn.sent = nil
	buf := make([]byte, chunk)
	print := func(c byte) (used *byte) {
		used = &buf[0]
		copy(buf, bytes.Repeat([]byte{c}, chunk))
		buf = st.add(1, buf, chunk)
		return used
	}
	first, second := print('a'), print('b')
	st.ackLocked(chunk)
	third := print('c') // into a buffer from before the acknowledgement
	if fourth := print('d'); fourth != first || third == first || third == second {
		t.Error("the first buffer was not the next one after its acknowledgement")
	}
	for i, m := range conn.sent[1:] {
		if want := bytes.Repeat([]byte{"bcd"[i]}, chunk); !bytes.Equal(m.Data, want) {
			t.Errorf("what waits at byte %d is now of %q", m.Offset, m.Data[0])
		}
	}
	st.attach(conn, chunk)
	st.ackLocked(st.end)
	if len(st.free) > 0 {
		t.Error("a buffer is used again that may be on its way")
	}
}

// A burst of input is acknowledged with its last message, whether the process reads it or
// not, and each message of a gateway that says nothing of bursts.
func TestInputIsAcknowledgedOnceABurst(t *testing.T) {
	var in, out [2]int
	for _, p := range []*[2]int{&in, &out} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unix.Close(in[0]); unix.Close(out[1]) })
	st := newStreams("x", in[1], out[:1], false, new(spare))
	t.Cleanup(func() { st.release(false) })
	conn := new(letters)
	st.attach(conn, 0)
	s := &Supervisor{procs: map[string]*proc{"x": {streams: st}}}
	const size = 16 << 10 // a pipe holds four of them, and window/2 is more than all
	for i, tt := range []struct {
		flags uint64
		acks  int
	}{{wire.FlagMore, 0}, {wire.FlagMore, 0}, {0, 1}, {0, 1}, {wire.FlagMore, 0}, {0, 1}} {
		st.mu.Lock()
		conn.sent = nil
		st.mu.Unlock()
		if f := s.input(&wire.Message{Type: wire.Input, ID: "x", Offset: uint64(i * size), Flags: tt.flags, Data: make([]byte, size)}); f != nil {
			t.Fatal(f)
		}
		st.mu.Lock()
		if len(conn.sent) != tt.acks {
			t.Errorf("message %d: %d acknowledgements, not %d", i, len(conn.sent), tt.acks)
		}
		for _, m := range conn.sent {
			if m.Type != wire.InputAck || m.Offset != uint64((i+1)*size) {
				t.Errorf("message %d: %+v", i, m)
			}
		}
		st.mu.Unlock()
	}
}
