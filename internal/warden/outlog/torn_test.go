package outlog

import (
	"bytes"
	"os"
	"testing"

	"github.com/corral-exec/corral"
)

// A writer that was killed after it had overwritten older bytes, and before it
// could say so, leaves a log that gives out neither.
func TestTornAppend(t *testing.T) {
	root := testRoot(t)
	limit := corral.LogLimit{Head: 10, Tail: 20}
	l := New(root, "x", limit)
	output := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+*/")
	if err := l.Append(corral.Stdout, 0, output[:40]); err != nil {
		t.Fatal(err)
	}
	// Bytes 40 to 48 are written, by hand, and that is not noted.
	if err := l.out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(corral.Stdout, 40, output[40:48]); err == nil {
		t.Fatal("written into a closed file")
	}
	l.Abandon()
	f, err := root.OpenFile("x.out", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(40); off < 48; off++ {
		if _, err := f.WriteAt(output[off:off+1], 10+(off-10)%20); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	l, err = Open(root, "x", limit)
	if err != nil {
		t.Fatal(err)
	}
	st, err := l.Stat(t.Context())
	if want := (corral.LogStat{Size: 40, GapStart: 10, GapEnd: 28}); st != want || err != nil {
		t.Errorf("%+v, %v, want %+v", st, err, want)
	}
	buf := make([]byte, 100)
	for _, tc := range []struct {
		off, at int64
		text    string
	}{{0, 0, "0123456789"}, {10, 28, string(output[28:40])}, {20, 28, string(output[28:40])}, {28, 28, string(output[28:40])}} {
		got := []byte{}
		at := int64(-1)
		for off := tc.off; len(got) < len(tc.text); {
			c, err := l.Read(t.Context(), off, buf)
			if err != nil {
				t.Fatal(err)
			}
			if at < 0 {
				at = c.Offset
			}
			got = append(got, c.Data...)
			off = c.Next()
		}
		if at != tc.at || string(got) != tc.text {
			t.Errorf("from %d: %q at %d, want %q at %d", tc.off, got, at, tc.text, tc.at)
		}
	}
	// It comes again, and all is as it should be.
	if err := l.Append(corral.Stdout, 40, output[40:]); err != nil {
		t.Fatal(err)
	}
	l.End()
	b, _, from, to := collect(t, l, 0, 7)
	if want := append(append([]byte(nil), output[:10]...), output[len(output)-20:]...); !bytes.Equal(b, want) || from != 10 || to != int64(len(output)-20) {
		t.Errorf("%q without %d to %d", b, from, to)
	}
}
