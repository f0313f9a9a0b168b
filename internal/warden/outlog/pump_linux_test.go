package outlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// numbered yields bytes of which each eight say their own offset.
func numbered(off int64, p []byte) {
	var word [8]byte
	for i := range p {
		o := off + int64(i)
		binary.BigEndian.PutUint64(word[:], uint64(o/8))
		p[i] = word[o%8]
	}
}

func checkNumbered(t *testing.T, l corral.Log, size int64) {
	t.Helper()
	st, err := l.Stat(context.Background())
	if err != nil || st.Size != size {
		t.Fatalf("%+v, %v; want %d bytes", st, err, size)
	}
	buf, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); off < size; {
		c, err := l.Read(context.Background(), off, buf)
		if err != nil {
			t.Fatal(err)
		}
		numbered(c.Offset, want[:len(c.Data)])
		if !bytes.Equal(c.Data, want[:len(c.Data)]) {
			t.Fatalf("wrong bytes at %d", c.Offset)
		}
		off = c.Next()
	}
}

func writeNumbered(t *testing.T, w *os.File, size int64) {
	buf := make([]byte, 50_001)
	for off := int64(0); off < size; {
		n := min(int64(len(buf)), size-off)
		numbered(off, buf[:n])
		if _, err := w.Write(buf[:n]); err != nil {
			t.Error(err)
			return
		}
		off += n
	}
}

// pump takes everything from f.
func pump(l *Log, f *os.File, tty bool) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for {
		switch _, err := l.Take(Source{End: rc, Stream: corral.Stdout, TTY: tty}); err {
		case nil:
		case io.EOF:
			return nil
		case ErrNothing:
			poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
				return err
			}
		default:
			return err
		}
	}
}

func TestPumpPipe(t *testing.T) {
	for _, size := range []int64{0, 1, 1 << 20, 100 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			l := New(testRoot(t), "x", corral.LogLimit{Head: 1 << 20, Tail: 3<<20 + 1})
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			go func() {
				writeNumbered(t, w, size)
				w.Close()
			}()
			if err := pump(l, r, false); err != nil {
				t.Fatal(err)
			}
			checkNumbered(t, l, size)
			l.End()
			checkNumbered(t, l, size)
		})
	}
}

func TestPumpTerminal(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{Head: 100, Tail: 100})
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := range 100 {
			fmt.Fprintf(slave, "line %d\n", i)
		}
		slave.Close()
	}()
	if err := pump(l, master, true); err != nil {
		t.Fatal(err)
	}
	master.Close()
	l.End()
	b, _, from, to := collect(t, l, 0, 1000)
	if from != 100 || !bytes.HasSuffix(b, []byte("line 98\r\nline 99\r\n")) || !bytes.HasPrefix(b, []byte("line 0\r\nline 1\r\n")) {
		t.Fatalf("gap %d to %d, %q", from, to, b)
	}
}

func init() { toBeKilled = pumpUntilKilled }

// pumpUntilKilled is what the killed process of TestKilledPump runs: it pumps
// descriptor 3 with the relay 4 and 5 into the log in the directory.
func pumpUntilKilled(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	root, err := os.OpenRoot(dir)
	fail(err)
	l, err := Open(root, "x", killLimit)
	fail(err)
	fail(unix.SetNonblock(3, true))
	r, w := os.NewFile(4, "relay"), os.NewFile(5, "relay")
	fail(l.AdoptRelay(r, w))
	fmt.Println("ready")
	fail(pump(l, os.NewFile(3, "source"), false))
}

var killLimit = corral.LogLimit{Head: 100_000, Tail: 300_001}

// A writer killed at any moment loses no byte and repeats none.
func TestKilledPump(t *testing.T) {
	root := testRoot(t)
	src, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	relayR, relayW, err := NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	defer relayR.Close()
	defer relayW.Close()
	const size = 2 << 30
	stop := make(chan struct{})
	written := make(chan int64, 1)
	go func() {
		buf := make([]byte, 20_000)
		off := int64(0)
		defer func() { w.Close(); written <- off }()
		for off < size {
			select {
			case <-stop:
				return
			default:
			}
			n := 1 + rand.IntN(len(buf))
			numbered(off, buf[:n])
			if _, err := w.Write(buf[:n]); err != nil {
				t.Error(err)
				return
			}
			off += int64(n)
		}
	}()
	for kill := range 25 {
		if kill == 24 {
			close(stop)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "OUTLOG_TEST_PUMP="+root.Name())
		cmd.ExtraFiles = []*os.File{src, relayR, relayW}
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if kill == 24 {
			break // the last one reads to the end
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	total := <-written
	deadline := time.Now().Add(30 * time.Second)
	for {
		n, err := unix.IoctlGetInt(int(src.Fd()), unix.TIOCINQ)
		m, err2 := unix.IoctlGetInt(int(relayR.Fd()), unix.TIOCINQ)
		if err != nil || err2 != nil || time.Now().After(deadline) {
			t.Fatal("not read to the end", n, m, err, err2)
		}
		if n == 0 && m == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // the position is written after the bytes
	l, err := Open(root, "x", killLimit)
	if err != nil {
		t.Fatal(err)
	}
	l.End()
	checkNumbered(t, l, total)
	t.Logf("%d bytes over 24 kills", total)
}
