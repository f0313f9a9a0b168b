package runner

import (
	"context"
	"errors"
	"io"

	"github.com/corral-exec/corral"
)

// Excerpts hold a range of a log.
type Excerpts struct {
	// Output is both streams in the order in which they arrived.
	Output, Stdout, Stderr Excerpt

	// Gap is the number of bytes that the log had dropped before they could be read.
	// They are part of Output.Omitted. Since their stream is unknown, they are also
	// part of the Omitted of both Stdout and Stderr.
	Gap int64
	// Next is the offset after the last byte.
	Next int64
}

// ReadExcerpts reads a log from offset off to offset end, which the log has reached: it
// does not wait for output. It keeps the first and the last max bytes of each stream.
// merged reports that all output is on one stream, so dropped bytes were, too.
func ReadExcerpts(ctx context.Context, log corral.Log, off, end int64, max int, merged bool) (Excerpts, error) {
	got := newCollector(max, merged)
	got.next = off
	buf := make([]byte, min(32<<10, end-min(off, end)))
	for got.next < end {
		c, err := log.Read(ctx, got.next, buf[:min(int64(len(buf)), end-got.next)])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Excerpts{}, err
		}
		if c.Offset >= end { // the log dropped the rest just now
			got.lose(end - got.next)
			break
		}
		got.add(c)
	}
	return got.excerpts(), nil
}

// A collector collects Excerpts.
type collector struct {
	output, stdout, stderr excerptBuffer
	gap                    int64
	next                   int64
	merged                 bool // bytes that the log dropped were standard output
}

func newCollector(max int, merged bool) collector {
	b := excerptBuffer{lastBytes: lastBytes{max: max}}
	return collector{output: b, stdout: b, stderr: b, merged: merged}
}

// add adds the chunk that was read at next.
func (g *collector) add(c corral.Chunk) {
	if lost := c.Offset - g.next; lost > 0 {
		g.lose(lost)
	}
	g.next = c.Next()
	g.output.write(c.Data)
	if c.Stream == corral.Stderr {
		g.stderr.write(c.Data)
	} else {
		g.stdout.write(c.Data)
	}
}

// lose notes that n bytes at next are lost.
func (g *collector) lose(n int64) {
	g.gap += n
	g.next += n
	g.output.skip(n)
	g.stdout.skip(n)
	if !g.merged {
		g.stderr.skip(n)
	}
}

func (g *collector) excerpts() Excerpts {
	return Excerpts{Output: g.output.excerpt(), Stdout: g.stdout.excerpt(), Stderr: g.stderr.excerpt(), Gap: g.gap, Next: g.next}
}
