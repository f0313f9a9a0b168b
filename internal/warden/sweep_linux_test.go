package warden

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What a process left in its terminal is taken, also if it is as much as gVisor's
// terminals hold. A pipe stands for one of those.
func TestSweepOfATerminal(t *testing.T) {
	const held = 128<<10 + 4<<10
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	if _, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 2*held); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Write(p[1], make([]byte, held)); err != nil || n != held {
		t.Fatal(n, err)
	}
	st := newStreams("x", -1, []int{p[0]}, true, new(spare))
	defer st.release(false)
	rc, err := st.outs[0].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	st.sweep(rc, 1)
	if st.end != held {
		t.Errorf("%d bytes were taken, of %d", st.end, held)
	}
}
