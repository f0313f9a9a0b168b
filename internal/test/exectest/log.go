package exectest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
)

var logCases = []Case{
	{Name: "log/any-offset", Doc: "After the end the log can be read from any offset, with a buffer of any size.", Func: logAnyOffset},
	{Name: "log/any-offset-running", Doc: "While the command runs, what it has written can be read from any offset.", Func: logAnyOffsetRunning},
	{Name: "log/two-readers", Doc: "Readers at different offsets at the same time each get all of it.", Func: logTwoReaders},
	{Name: "log/wakes", Doc: "A reader that waits at the end gets what is written next, at once.", Func: logWakes},
	{Name: "log/future-offset", Doc: "A Read beyond the end of a growing log waits until it is reached.", Func: logFutureOffset},
	{Name: "log/wakes-at-end", Doc: "A reader that waits gets io.EOF when the log ends.", Func: logWakesAtEnd},
	{Name: "log/beyond-end", Doc: "A Read at or beyond the end of an ended log is io.EOF, each time.", Func: logBeyondEnd},
	{Name: "log/stat", Doc: "Stat counts the bytes written so far and says when no more will come.", Func: logStat},
	{Name: "log/one-stream-chunks", Doc: "From any offset, each byte of interleaved streams is of the right one.", Func: logOneStreamChunks},
}

func logAnyOffset(t *T) {
	const n = 300_000
	p := t.run(t.prog("pattern", fmt.Sprint(n), "7"))
	for i := range 100 {
		off, size := rand.Int64N(n), 1+rand.IntN(100_000)
		if i < 10 {
			size = 1
		}
		c, _ := t.chunk(p, off, size)
		if c.Offset != off || !pattern.Equal(c.Data, 7, off) {
			t.Fatalf("Read(%d) with %d bytes returned offset %d and %d bytes that are not those written there", off, size, c.Offset, len(c.Data))
		}
	}
	off := rand.Int64N(n)
	equal(t, "where the log ends, read from the middle", samePattern(t, p, off, 7), n)
}

func logAnyOffsetRunning(t *T) {
	const n, ahead = 400_000, 200_000
	p := t.start(t.prog("pattern", fmt.Sprint(n), "8", "10000", "10ms"))
	for t.stat(p).Size < n {
		off := rand.Int64N(ahead)
		c, more := t.chunk(p, off, 1+rand.IntN(5000))
		if !more || c.Offset != off || !pattern.Equal(c.Data, 8, off) {
			t.Fatalf("Read(%d) returned offset %d and %d bytes that are not those written there", off, c.Offset, len(c.Data))
		}
	}
	equal(t, "the exit code", t.wait(p).Code, 0)
	equal(t, "where the log ends", samePattern(t, p, 0, 8), n)
}

func logTwoReaders(t *T) {
	const n = 2_000_000
	p := t.start(t.prog("pattern", fmt.Sprint(n), "9", "50000", "2ms"))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			from := int64(i) * 100_001
			buf := make([]byte, 1000*(i+1))
			for off := from; ; {
				c, err := p.Log().Read(t.Ctx, off, buf)
				if errors.Is(err, io.EOF) && off == n {
					return
				}
				if err != nil || c.Offset != off || !pattern.Equal(c.Data, 9, off) {
					t.Errorf("reader %d: Read(%d) returned offset %d, %d bytes, %v", i, off, c.Offset, len(c.Data), err)
					return
				}
				off = c.Next()
			}
		})
	}
	wg.Wait()
}

// reading is a Read that goes on meanwhile.
type reading struct {
	chunk corral.Chunk
	err   error
}

func readAside(t *T, p corral.Process, off int64) <-chan reading {
	got := make(chan reading, 1)
	go func() {
		c, err := p.Log().Read(t.Ctx, off, make([]byte, 1000))
		got <- reading{c, err}
	}()
	return got
}

// blocks fails the case if the Read returns although nothing was written.
func blocks(t *T, got <-chan reading) {
	t.Helper()
	select {
	case r := <-got:
		t.Fatalf("Read returned %q, %v although there is nothing", r.chunk.Data, r.err)
	case <-time.After(50 * time.Millisecond):
	}
}

func logWakes(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	var late []time.Duration
	const times = 5
	for i := range times {
		off := int64(i * 2)
		got := readAside(t, p, off)
		blocks(t, got)
		from := time.Now()
		t.write(p, fmt.Sprintf("%d\n", i))
		r := <-got
		if r.err != nil || r.chunk.Offset != off || string(r.chunk.Data) != fmt.Sprintf("%d\n", i) {
			t.Fatalf("Read(%d) returned %q at %d, %v", off, r.chunk.Data, r.chunk.Offset, r.err)
		}
		if took := time.Since(from); took > t.soon(250*time.Millisecond) {
			late = append(late, took)
		}
	}
	if len(late) > times/2 { // now and then a machine has better things to do
		t.Errorf("the reader woke after %v", late)
	}
}

func logFutureOffset(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	got := readAside(t, p, 6)
	t.write(p, "01234")
	t.await(p, 0, "01234")
	blocks(t, got)
	t.write(p, "56789")
	r := <-got
	if r.err != nil || r.chunk.Offset != 6 || string(r.chunk.Data) != "6789"[:len(r.chunk.Data)] {
		t.Fatalf("Read(6) returned %q at %d, %v", r.chunk.Data, r.chunk.Offset, r.err)
	}
}

func logWakesAtEnd(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	at0, at9 := readAside(t, p, 0), readAside(t, p, 9)
	blocks(t, at0)
	t.closeStdin(p)
	equal(t, "the error of Read(0)", (<-at0).err, io.EOF)
	equal(t, "the error of Read(9)", (<-at9).err, io.EOF)
	equal(t, "the exit code", t.wait(p).Code, 0)
}

func logBeyondEnd(t *T) {
	p := t.run(t.sh("printf 0123456789"))
	for _, off := range []int64{10, 11, 10, 1 << 40} {
		c, err := p.Log().Read(t.Ctx, off, make([]byte, 10))
		equal(t, "the error", err, io.EOF) // as it is: readers compare it
		equal(t, "the number of bytes", len(c.Data), 0)
	}
	c, _ := t.chunk(p, 9, 10)
	equal(t, "the last byte", string(c.Data), "9")
}

func logStat(t *T) {
	p := t.start(withStdin(t.sh("cat; printf end")))
	equal(t, "Stat before any output", t.stat(p), corral.LogStat{})
	t.write(p, "12345")
	t.await(p, 0, "12345")
	equal(t, "Stat while running", t.stat(p), corral.LogStat{Size: 5})
	t.closeStdin(p)
	t.wait(p)
	equal(t, "Stat after the end", t.stat(p), corral.LogStat{Size: 8, Ended: true})
}

func logOneStreamChunks(t *T) {
	n := 50_000
	p := t.run(t.prog("both", fmt.Sprint(n)))
	total := int64(2 * n)
	for range 100 {
		off := rand.Int64N(total)
		c, _ := t.chunk(p, off, 1+rand.IntN(20_000))
		if c.Offset != off {
			t.Fatalf("Read(%d) returned offset %d", off, c.Offset)
		}
		onlyOf(t, c)
	}
}

// onlyOf checks a chunk of "testprog both".
func onlyOf(t *T, c corral.Chunk) {
	t.Helper()
	want := byte('o')
	if c.Stream == corral.Stderr {
		want = 'e'
	}
	for i, b := range c.Data {
		if b != want {
			t.Fatalf("byte %d of %v is %q", c.Offset+int64(i), c.Stream, b)
		}
	}
}
