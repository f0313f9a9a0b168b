package outlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
)

func testRoot(t testing.TB) *os.Root {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// collect reads the log from off to its end: the kept bytes by stream, and
// where bytes were missing.
func collect(t interface{ Fatal(...any) }, l corral.Log, off int64, bufSize int) (b []byte, streams []corral.Stream, gapFrom, gapTo int64) {
	buf := make([]byte, bufSize)
	for {
		c, err := l.Read(context.Background(), off, buf)
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Offset > off {
			gapFrom, gapTo = off, c.Offset
		}
		b = append(b, c.Data...)
		for range c.Data {
			streams = append(streams, c.Stream)
		}
		off = c.Next()
	}
}

func TestLogKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "outlog")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		limit := corral.LogLimit{Head: rapid.Int64Range(1, 40).Draw(t, "head"), Tail: rapid.Int64Range(1, 40).Draw(t, "tail")}
		l := New(root, "x", limit)
		var all []byte
		var of []corral.Stream
		for range rapid.IntRange(0, 30).Draw(t, "writes") {
			p := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "p")
			s := corral.Stream(rapid.IntRange(1, 2).Draw(t, "stream"))
			back := rapid.Int64Range(0, min(5, int64(len(all)))).Draw(t, "repeated")
			again := append(bytes.Clone(all[int64(len(all))-back:]), p...)
			if err := l.Append(s, int64(len(all))-back, again); err != nil {
				t.Fatal(err)
			}
			all = append(all, p...)
			for range p {
				of = append(of, s)
			}
			if rapid.IntRange(0, 5).Draw(t, "reopen") == 0 {
				l.Abandon()
				if l, err = Open(root, "x", limit); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Append(1, int64(len(all))+1, []byte("x")); err == nil {
			t.Fatal("a hole was accepted")
		}
		l.End()
		from := rapid.Int64Range(0, int64(len(all))).Draw(t, "from")
		got, streams, gapFrom, gapTo := collect(t, l, from, rapid.IntRange(1, 100).Draw(t, "buf"))
		var want []byte
		var wantStreams []corral.Stream
		n := int64(len(all))
		for i := from; i < n; i++ {
			if i < limit.Head || i >= n-limit.Tail {
				want = append(want, all[i])
				wantStreams = append(wantStreams, of[i])
			}
		}
		if !bytes.Equal(got, want) || fmt.Sprint(streams) != fmt.Sprint(wantStreams) {
			t.Fatalf("from %d: got %x %v, want %x %v", from, got, streams, want, wantStreams)
		}
		st, _ := l.Stat(context.Background())
		wantGap := max(0, n-limit.Head-limit.Tail)
		if st.Size != n || st.Gap() != wantGap || !st.Ended {
			t.Fatalf("%d bytes, limit %+v: %+v", n, limit, st)
		}
		if from <= limit.Head && gapTo-gapFrom != wantGap {
			t.Fatalf("the reader saw a gap of %d, want %d", gapTo-gapFrom, wantGap)
		}
		if err := Remove(root, "x"); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	})
}

// A stream that changes at every byte has a bounded index, and no byte is
// ascribed to the wrong stream.
func TestIndexIsBounded(t *testing.T) {
	for _, n := range []int64{2*maxRuns + 1, 3*maxRuns + 1, 3*maxRuns + 77} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { testIndexIsBounded(t, n) })
	}
}

func testIndexIsBounded(t *testing.T, n int64) {
	root := testRoot(t)
	limit := corral.LogLimit{Head: 1 << 20, Tail: 1 << 20}
	l := New(root, "x", limit)
	const more = 10 // after the log was opened again
	for i := range n {
		if err := l.Append(corral.Stream(1+i%2), i, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l *Log, n int64, wantGap bool) {
		l.End()
		b, streams, from, to := collect(t, l, 0, 10)
		if to-from > 0 != wantGap || int64(len(b))+to-from != n {
			t.Fatalf("%d bytes, gap %d to %d", len(b), from, to)
		}
		for i, s := range streams {
			o := int64(i)
			if o >= from {
				o += to - from
			}
			if s != corral.Stream(1+o%2) || b[i] != byte(o) {
				t.Fatalf("byte %d is %d of %v", o, b[i], s)
			}
		}
	}
	info, err := os.Stat(root.Name() + "/x.idx")
	if err != nil || info.Size() > 2*maxRuns*runSize+indexPiece {
		t.Fatalf("index: %v, %v", info.Size(), err)
	}
	turned := n > 2*maxRuns+1
	check(l, n, turned)
	if l, err = Open(root, "x", limit); err != nil {
		t.Fatal(err)
	}
	for i := n; i < n+more; i++ {
		if err := l.Append(corral.Stream(1+i%2), i, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	check(l, n+more, true)
	if l, err = Open(root, "x", limit); err != nil {
		t.Fatal(err)
	}
	check(l, n+more, true)
}

func TestReadWaits(t *testing.T) {
	l := New(testRoot(t), "x", corral.LogLimit{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Read(ctx, 0, make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nothing there: %v", err)
	}
	got := make(chan string)
	go func() {
		c, err := l.Read(context.Background(), 2, make([]byte, 10))
		got <- fmt.Sprint(c.Offset, string(c.Data), err)
		_, err = l.Read(context.Background(), 3, make([]byte, 10))
		got <- fmt.Sprint(err)
	}()
	for i, p := range []string{"ab", "c"} {
		if err := l.Append(corral.Stdout, int64(2*i), []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if s := <-got; s != "2c<nil>" {
		t.Fatalf("got %s", s)
	}
	l.End()
	if s := <-got; s != "EOF" {
		t.Fatalf("got %s", s)
	}
	for _, bad := range []struct {
		off int64
		buf []byte
	}{{-1, make([]byte, 1)}, {0, nil}} {
		if _, err := l.Read(context.Background(), bad.off, bad.buf); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("Read(%d, %d bytes): %v", bad.off, len(bad.buf), err)
		}
	}
}

// The index of a log is read after a crash: any bytes are an error or a log.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 6}, []byte("hello"), []byte{})
	index := append(indexHeader(indexFormat), run{3, corral.Stderr}.encode(false)...)
	f.Add(append(index, make([]byte, indexPiece-len(index))...), []byte("hello"), []byte{})
	f.Fuzz(func(t *testing.T, idx, out, pos []byte) {
		root := testRoot(t)
		for name, b := range map[string][]byte{"x.idx": idx, "x.out": out, "x.pos": pos} {
			if name == "x.pos" && len(b) == 0 {
				continue
			}
			if err := os.WriteFile(root.Name()+"/"+name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(root, "x", corral.LogLimit{Head: 16, Tail: 16})
		if err != nil {
			return
		}
		l.End()
		buf := make([]byte, 7)
		for off, n := int64(0), 0; n < 100; n++ {
			c, err := l.Read(context.Background(), off, buf)
			if err != nil {
				return
			}
			off = c.Next()
		}
	})
}
