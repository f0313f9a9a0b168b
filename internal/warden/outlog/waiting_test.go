package outlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// Without a limit it is that of the documentation.
func TestDefaultLimit(t *testing.T) {
	if l := New(testRoot(t), "x", corral.LogLimit{}); l.head != corral.LimitOutput.Head || l.tail != corral.LimitOutput.Tail {
		t.Errorf("%d+%d", l.head, l.tail)
	}
}

// Each thing that readers may wait for wakes them.
func TestReadersWake(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*Log) error
		want error
	}{
		{"more output", func(l *Log) error { return l.Append(corral.Stdout, 1, []byte("b")) }, nil},
		{"the end", func(l *Log) error { l.End(); return nil }, io.EOF},
		{"the end of this life", func(l *Log) error { l.Abandon(); return nil }, fs.ErrClosed},
	} {
		root := testRoot(t)
		l := New(root, "x", corral.LimitOutput)
		if err := l.Append(corral.Stdout, 0, []byte("a")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		got := make(chan error, 1)
		go func() {
			_, err := l.Read(ctx, 1, make([]byte, 1))
			got <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			waits = l.wake != nil
			l.mu.Unlock()
		}
		if err := tt.do(l); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		cancel()
		l.End() // also twice, or after Abandon
		l.Abandon()
		if l.out != nil || l.idx != nil || l.pos != nil {
			t.Errorf("%s: files are open", tt.name)
		}
		if _, err := l.Read(t.Context(), 0, make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: read after it: %v", tt.name, err)
		}
	}
}

// If the file of a log is gone or short, readers get an error, and not an end.
func TestReadsFail(t *testing.T) {
	for name, damage := range map[string]func(*os.Root) error{
		"gone":  func(root *os.Root) error { return root.Remove("x" + suffixOut) },
		"short": func(root *os.Root) error { f, _ := root.Create("x" + suffixOut); return f.Close() },
	} {
		for _, ended := range []bool{false, true} {
			root := testRoot(t)
			l := New(root, "x", corral.LimitOutput)
			if err := l.Append(corral.Stdout, 0, []byte("text")); err != nil {
				t.Fatal(err)
			}
			if ended {
				l.End()
			}
			if err := damage(root); err != nil {
				t.Fatal(err)
			}
			c, err := l.Read(t.Context(), 0, make([]byte, 4))
			if open := name == "gone" && !ended; open != (err == nil) || open && string(c.Data) != "text" {
				t.Errorf("%s, ended %t: %q, %v", name, ended, c.Data, err)
			}
			l.End()
		}
	}
}

// A piece that is larger than what one batch may overwrite is written in several, and
// the files tell its whole size.
func TestLargePiece(t *testing.T) {
	root := testRoot(t)
	limit := corral.LogLimit{Head: 1, Tail: 3 * maxPending}
	l := New(root, "x", limit)
	p := make([]byte, 8*maxPending)
	for i := range p {
		p[i] = byte(i >> 10)
	}
	if err := l.Append(corral.Stdout, 0, p); err != nil {
		t.Fatal(err)
	}
	if st, err := l.Stat(t.Context()); err != nil || st.Size != int64(len(p)) || st.GapStart != 1 || st.GapEnd != st.Size-limit.Tail {
		t.Errorf("%+v, %v", st, err)
	}
	l.Abandon()
	l, err := Open(root, "x", limit)
	if err != nil {
		t.Fatal(err)
	}
	l.End()
	b, _, from, to := collect(t, l, 0, 1<<20)
	if from != 1 || to != int64(len(p))-limit.Tail || !bytes.Equal(b[1:], p[to:]) || b[0] != p[0] {
		t.Errorf("%d bytes, without %d to %d", len(b), from, to)
	}
}

// A log without a gap says so by zeros.
func TestStatWithoutGap(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{Head: 2, Tail: 3})
	for i := range 5 {
		if err := l.Append(corral.Stdout, int64(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if st, err := l.Stat(t.Context()); err != nil || st.GapStart != 0 || st.GapEnd != 0 || st.Size != int64(i+1) {
			t.Errorf("%+v, %v", st, err)
		}
	}
	if err := l.Append(corral.Stdout, 5, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if st, err := l.Stat(t.Context()); err != nil || st.GapStart != 2 || st.GapEnd != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := l.Append(corral.Stdout, 8, []byte("x")); err == nil {
		t.Error("a hole is written")
	}
	l.End()
}
