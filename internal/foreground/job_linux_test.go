package foreground

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// A gateway or a node that is away gets the size when it is back: the newest one.
func TestSizeArrives(t *testing.T) {
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	terminal := tty{file: file}
	set := func(rows uint16) {
		if err := unix.IoctlSetWinsize(int(file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 80}); err != nil {
			t.Fatal(err)
		}
	}
	set(24)
	var got []uint16
	terminal.sendSize(t.Context(), func(_ context.Context, size corral.Size) error {
		got = append(got, size.Rows)
		switch len(got) {
		case 1:
			return corral.Errorf(corral.ErrUnavailable, "", "away")
		case 2:
			set(30)
			return corral.Errorf(corral.ErrUnavailable, "", "away")
		}
		return nil
	})
	if want := []uint16{24, 24, 30}; !slices.Equal(got, want) {
		t.Errorf("sizes of %v rows are sent, want %v", got, want)
	}

	calls := 0
	terminal.sendSize(t.Context(), func(context.Context, corral.Size) error { calls++; return corral.ErrEnded })
	if calls != 1 {
		t.Errorf("a command that has ended gets the size %d times", calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	terminal.sendSize(ctx, func(context.Context, corral.Size) error { cancel(); return errors.Join(corral.ErrUnavailable) })
}

// A query in old output is not answered again, wherever the output is cut; one in new
// output is.
func TestOldQueries(t *testing.T) {
	const old, fresh = "a\x1b[6nb\x1b[1mc\x1b[", "c\x1b[6nd"
	for cut := range len(old + fresh) {
		var got bytes.Buffer
		s := shower{Writer: &got, left: int64(len(old))}
		for _, part := range []string{(old + fresh)[:cut], (old + fresh)[cut:]} {
			if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if want := "ab\x1b[1mc\x1b[" + fresh; got.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, got.String(), want)
		}
	}
}
