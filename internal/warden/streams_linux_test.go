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
