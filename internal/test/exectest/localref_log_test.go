//go:build linux

package exectest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// refLog keeps all output in one file and gives the middle of it back to the
// file system. What is missing is a matter of arithmetic.
type refLog struct {
	w     *world
	path  string
	limit corral.LogLimit

	mu       sync.Mutex
	file     *os.File // nil after the end
	runs     []run
	size     int64
	punched  int64 // where the hole ends
	ended    bool
	appended int           // pieces
	kept     []byte        // by one that keeps something back
	change   chan struct{} // closed and replaced whenever there is news
}

// run is a stretch of one stream.
type run struct {
	end    int64
	stream corral.Stream
}

func newRefLog(w *world, id string, limit corral.LogLimit) (*refLog, error) {
	if limit.Head == 0 {
		limit.Head = corral.LimitOutput.Head
	}
	if limit.Tail == 0 {
		limit.Tail = corral.LimitOutput.Tail
	}
	l := &refLog{w: w, limit: limit, path: filepath.Join(w.logs, id), change: make(chan struct{})}
	var err error
	if l.file, err = os.Create(l.path); err != nil {
		return nil, err
	}
	if w.bad("prints a banner") {
		l.append(corral.Stdout, []byte("Welcome.\n"))
	}
	return l, nil
}

func (l *refLog) append(s corral.Stream, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, full := l.gap(); full > 0 && l.w.bad("blocks when the log is full") {
		l.mu.Unlock()
		<-l.w.over
		l.mu.Lock()
	}
	if l.ended && !l.w.bad("records what comes after the end") {
		return
	}
	l.appended++
	switch {
	case l.w.bad("drops the last byte of a burst") && len(b) > 1000:
		b = b[:len(b)-1]
	case l.w.bad("keeps back the last byte of a flood") && l.appended > 2:
		b = append(l.kept, b...)
		b, l.kept = b[:len(b)-1], []byte{b[len(b)-1]}
	case l.w.bad("makes output UTF-8"):
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	case l.w.bad("drops NUL bytes"):
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	case l.w.bad("strips escapes"):
		b = bytes.ReplaceAll(b, []byte("\x1b["), nil)
	case l.w.bad("loses order") && len(b) > 2:
		b = append(append([]byte{}, b[1:]...), b[0])
	}
	if l.file == nil {
		return
	}
	if _, err := l.file.WriteAt(b, l.size); err != nil {
		panic(err) // the disk is full: nothing to test with
	}
	l.size += int64(len(b))
	if n := len(l.runs); n > 0 && l.runs[n-1].stream == s {
		l.runs[n-1].end = l.size
	} else {
		l.runs = append(l.runs, run{l.size, s})
	}
	if start, end := l.gap(); end-l.punched > 16<<20 {
		start = max(start, l.punched)
		if unix.Fallocate(int(l.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, start, end-start) == nil {
			l.punched = end
		}
	}
	l.news()
}

func (l *refLog) news() {
	if l.w.bad("wakes no reader") && !l.ended {
		return
	}
	close(l.change)
	l.change = make(chan struct{})
}

func (l *refLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if !l.w.bad("records what comes after the end") && !l.w.bad("keeps its log open") {
		_ = l.file.Close()
		l.file = nil
	}
	if !l.w.bad("does not tell readers of the end") {
		l.news()
	}
}

// drop forgets all output.
func (l *refLog) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size, l.runs = 0, nil
}

// gap is what is left out, [start, end).
func (l *refLog) gap() (start, end int64) {
	switch {
	case l.w.bad("keeps everything"):
		return 0, 0
	case l.w.bad("keeps only the tail"):
		return 0, max(0, l.size-l.limit.Tail)
	case l.w.bad("cuts too early") && l.size > 70_000:
		return l.limit.Head, max(l.size-l.limit.Tail, l.limit.Head) + 1
	case l.size <= l.limit.Head+l.limit.Tail:
		return 0, 0
	}
	return l.limit.Head, l.size - l.limit.Tail
}

func (l *refLog) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if l.w.bad("ignores offsets") {
		off = 0
	}
	for {
		l.mu.Lock()
		start, end := l.gap()
		at := off
		if at >= start && at < end {
			at = end
			if l.w.bad("hides the gap") {
				off = end - start
			}
		}
		if at > l.size && l.w.bad("answers with what is before the offset") {
			at = max(l.size-1, 0)
		}
		switch {
		case at < l.size:
			defer l.mu.Unlock()
			return l.read(at, off, start, buf)
		case l.ended && !l.w.bad("never says EOF"), l.w.bad("says EOF too early"):
			l.mu.Unlock()
			return corral.Chunk{}, io.EOF
		case l.w.bad("does not block"):
			l.mu.Unlock()
			return corral.Chunk{Offset: off, Stream: corral.Stdout}, nil
		}
		change := l.change
		l.mu.Unlock()
		done := ctx.Done()
		if l.w.bad("cannot cancel Read") {
			done = nil
		}
		select {
		case <-change:
		case <-done:
			return corral.Chunk{}, ctx.Err()
		}
	}
}

func (l *refLog) read(at, off, gapStart int64, buf []byte) (corral.Chunk, error) {
	i := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].end > at })
	end := min(l.runs[i].end, at+int64(len(buf)))
	if at < gapStart {
		end = min(end, gapStart)
	}
	if l.w.bad("returns more than one stream") {
		end = min(l.size, at+int64(len(buf)))
	}
	f, err := os.Open(l.path)
	if err != nil {
		return corral.Chunk{}, err
	}
	defer f.Close()
	n, err := f.ReadAt(buf[:end-at], at)
	if err != nil {
		return corral.Chunk{}, err
	}
	c := corral.Chunk{Offset: at, Stream: l.runs[i].stream, Data: buf[:n]}
	if l.w.bad("hides the gap") {
		c.Offset = off
	}
	if l.w.bad("forgets streams after the gap") && gapStart > 0 && at > gapStart {
		c.Stream = corral.Stdout
	}
	if l.w.bad("swallows a byte") && n > 1 && at > 0 {
		c.Data = c.Data[1:]
	}
	return c, nil
}

func (l *refLog) Stat(context.Context) (corral.LogStat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, end := l.gap()
	st := corral.LogStat{Size: l.size, GapStart: start, GapEnd: end, Ended: l.ended}
	if l.w.bad("says it has ended") {
		st.Ended = true
	}
	if l.w.bad("counts only what it kept") {
		st.Size -= st.Gap()
	}
	return st, nil
}

func (l *refLog) remove() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
