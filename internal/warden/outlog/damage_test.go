package outlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/damagetest"
)

// Wherever a log's position or index is cut, and whatever bit of it is another: the
// output is as it was, of the streams that it was of, or the error says that the log is
// damaged.
func TestDamage(t *testing.T) {
	root := testRoot(t)
	limit := corral.LogLimit{Head: 10, Tail: 20}
	l := New(root, "x", limit)
	for i, text := range []string{"0123456789", "abcdefghij", "ABCDEFGHIJ", "klmnopqrst"} {
		if err := l.Append([]corral.Stream{corral.Stdout, corral.Stderr}[i%2], int64(10*i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	l.End()
	read := func() (text string, err error) {
		l, err := Open(root, "x", limit)
		if err != nil {
			return "", err
		}
		l.End()
		buf := make([]byte, 100)
		for off := int64(0); ; {
			c, err := l.Read(t.Context(), off, buf)
			if err == io.EOF {
				return text, nil
			}
			if err != nil {
				return "", err
			}
			text += fmt.Sprintf("%d %d %q; ", c.Offset, c.Stream, c.Data)
			off = c.Next()
		}
	}
	same := func(a, b string) bool { return a == b }
	t.Run("position", func(t *testing.T) {
		damagetest.File(t, filepath.Join(root.Name(), "x.pos"), "log of x", same, read)
	})
	t.Run("index", func(t *testing.T) {
		damagetest.File(t, filepath.Join(root.Name(), "x.idx"), "log of x", same, read)
	})
	// That of a log whose ring has turned has a known length.
	for n := range limit.Head + limit.Tail {
		if err := os.Truncate(filepath.Join(root.Name(), "x.out"), limit.Head+limit.Tail-n-1); err != nil {
			t.Fatal(err)
		}
		if text, err := read(); err == nil {
			t.Errorf("without the last %d bytes: %s", n+1, text)
		}
	}
}

// An index that has grown over several pieces is damaged wherever it is cut, also at the
// end of a piece.
func TestIndexCut(t *testing.T) {
	root := testRoot(t)
	l := New(root, "x", corral.LogLimit{})
	const n = 3*indexPiece/runSize - 10
	for i := range int64(n) {
		if err := l.Append(corral.Stream(1+i%2), i, []byte{'x'}); err != nil {
			t.Fatal(err)
		}
	}
	l.Abandon()
	file := filepath.Join(root.Name(), "x.idx")
	whole, err := os.ReadFile(file)
	if err != nil || len(whole) != 3*indexPiece {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	for size := len(whole); size >= 0; size-- {
		if size%indexPiece > 8 && size%509 != 0 { // of the others there are some
			continue
		}
		if err := os.WriteFile(file, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(root, "x", corral.LogLimit{})
		if (err == nil) != (size == len(whole)) || err != nil && !strings.Contains(err.Error(), "log of x: x.idx is damaged") {
			t.Fatalf("with %d of %d bytes: %v", size, len(whole), err)
		}
		if err == nil {
			l.End()
		}
	}
}

// Output that is cut before what the index speaks of is not taken for all there was.
func TestOutputCutBeforeIndex(t *testing.T) {
	root := testRoot(t)
	l := New(root, "x", corral.LogLimit{})
	for i, text := range []string{"0123456789", "abcdefghij"} {
		if err := l.Append(corral.Stream(1+i), int64(10*i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	l.End()
	for n := range int64(10) {
		if err := os.Truncate(filepath.Join(root.Name(), "x.out"), 9-n); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(root, "x", corral.LogLimit{}); err == nil || !strings.Contains(err.Error(), "x.out is damaged") {
			t.Errorf("with %d bytes: %v", 9-n, err)
		}
	}
}

// Files of earlier versions are read, and written on as they were begun.
func TestEarlierFormats(t *testing.T) {
	limit := corral.LogLimit{Head: 10, Tail: 20}
	word := func(r run, summed bool) []byte {
		b := r.encode(false)
		if !summed {
			return binary.BigEndian.AppendUint64(nil, uint64(r.off)<<offsetAt|uint64(r.stream))
		}
		return b
	}
	for _, summed := range []bool{false, true} {
		root := testRoot(t)
		position := binary.BigEndian.AppendUint64(nil, 35<<pendingBits)
		if summed {
			position = binary.BigEndian.AppendUint64(position, uint64(checksum(position)))
		}
		for name, b := range map[string][]byte{
			"x.out": []byte("0123456789uvwxyklmnopqrst34567"),
			"x.pos": position,
			"x.idx": slices.Concat(word(run{5, corral.Stderr}, summed), word(run{25, corral.Stdout}, summed)),
		} {
			if err := os.WriteFile(filepath.Join(root.Name(), name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // and when more was written
			l, err := Open(root, "x", limit)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(corral.Stderr, 35, []byte("!")); err != nil {
				t.Fatal(err)
			}
			l.End()
			b, streams, from, to := collect(t, l, 0, 100)
			if string(b) != "0123456789vwxyklmnopqrst34567!"[:10]+string(b[10:]) || from != 10 || to != 16 || len(b) != 30 {
				t.Errorf("%q without %d to %d", b, from, to)
			}
			if streams[4] != corral.Stdout || streams[5] != corral.Stderr || streams[18] != corral.Stderr || streams[19] != corral.Stdout || streams[29] != corral.Stderr {
				t.Errorf("streams %v", streams)
			}
		}
	}
}

// Of a format that is newer than this program the error says so.
func TestNewerFormat(t *testing.T) {
	newer := indexHeader(indexFormat + 1)
	position := binary.BigEndian.AppendUint64(nil, 35<<pendingBits)
	position = binary.BigEndian.AppendUint64(position, (positionFormat+1)<<32|uint64(checksum(position)))
	for name, b := range map[string][]byte{
		"x.idx": append(newer, bytes.Repeat([]byte{0xa5}, 100)...),
		"x.pos": position,
	} {
		root := testRoot(t)
		for name, b := range map[string][]byte{"x.out": []byte("0123456789"), name: b} {
			if err := os.WriteFile(filepath.Join(root.Name(), name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(root, "x", corral.LogLimit{Head: 10, Tail: 20})
		if err == nil || !strings.Contains(err.Error(), "log of x: "+name) || !strings.Contains(err.Error(), "a newer version of Corral wrote it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A limit that was written down wrong is no limit of a log.
func TestOpenLimit(t *testing.T) {
	for _, limit := range []corral.LogLimit{{Head: 10, Tail: -5}, {Head: -1}, {Head: math.MaxInt64, Tail: 1}, {Tail: math.MaxInt64}} {
		if _, err := Open(testRoot(t), "x", limit); err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("%+v: %v", limit, err)
		}
	}
}
