package exectest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/corral-exec/corral"
)

// result is all that is known of an ended process.
type result struct {
	corral.Process
	exit           corral.Exit
	stdout, stderr string
	all            string
}

// run runs cmd to its end.
func (t *T) run(cmd corral.Command) result {
	t.Helper()
	return t.finish(t.start(cmd))
}

func (t *T) finish(p corral.Process) result {
	t.Helper()
	r := result{Process: p, exit: t.wait(p)}
	var all, stdout, stderr strings.Builder
	t.scan(p, 0, 64<<10, func(c corral.Chunk) bool {
		all.Write(c.Data)
		if c.Stream == corral.Stderr {
			stderr.Write(c.Data)
		} else {
			stdout.Write(c.Data)
		}
		return true
	})
	r.all, r.stdout, r.stderr = all.String(), stdout.String(), stderr.String()
	return r
}

// ok runs cmd, which must succeed, and returns its standard output.
func (t *T) ok(cmd corral.Command) string {
	t.Helper()
	r := t.run(cmd)
	if !r.exit.Success() {
		t.Fatalf("%s: %v\n%s", brief(cmd), r.exit, clip(r.all))
	}
	return r.stdout
}

// clip is text short enough for a message.
func clip(s string) string {
	if len(s) <= 400 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q … %q (%d bytes)", s[:200], s[len(s)-200:], len(s))
}

// scan reads from off on with a buffer of that size until the log ends or each
// is false, and checks what is true of every chunk.
func (t *T) scan(p corral.Process, off int64, size int, each func(corral.Chunk) bool) {
	t.Helper()
	for {
		c, more := t.chunk(p, off, size)
		if !more {
			return
		}
		if !each(c) {
			return
		}
		off = c.Next()
	}
}

func (t *T) chunk(p corral.Process, off int64, size int) (c corral.Chunk, more bool) {
	t.Helper()
	c, err := p.Log().Read(t.Ctx, off, make([]byte, size))
	switch {
	case errors.Is(err, io.EOF):
		if len(c.Data) > 0 {
			t.Fatalf("Read(%d): data together with io.EOF", off)
		}
		return c, false
	case err != nil:
		t.Fatalf("Read(%d): %v", off, err)
	case c.Offset < off:
		t.Fatalf("Read(%d) returned offset %d, which is before it", off, c.Offset)
	case len(c.Data) == 0 || len(c.Data) > size:
		t.Fatalf("Read(%d) with a buffer of %d bytes returned %d bytes", off, size, len(c.Data))
	case c.Stream != corral.Stdout && c.Stream != corral.Stderr:
		t.Fatalf("Read(%d) returned %v", off, c.Stream)
	}
	return c, true
}

// await reads from off until the output holds text, and returns the offset
// after what was read.
func (t *T) await(p corral.Process, off int64, text string) int64 {
	t.Helper()
	var got bytes.Buffer
	t.scan(p, off, 4<<10, func(c corral.Chunk) bool {
		got.Write(c.Data)
		off = c.Next()
		return !strings.Contains(got.String(), text)
	})
	if !strings.Contains(got.String(), text) {
		t.Fatalf("the output ended without %q: %s", text, clip(got.String()))
	}
	return off
}
