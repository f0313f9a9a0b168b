package outlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/damagetest"
)

// Whatever bit of a log's position or index is another: the output is as it was, of
// the streams that it was of, or it is told that the log is damaged.
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
		damagetest.Flipped(t, filepath.Join(root.Name(), "x.pos"), "log of x", same, read)
	})
	t.Run("index", func(t *testing.T) {
		damagetest.Flipped(t, filepath.Join(root.Name(), "x.idx"), "log of x", same, read)
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
