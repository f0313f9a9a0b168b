package outlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
)

// A Log is one process's output; it is a corral.Log. One goroutine a stream
// may add to it, any number may read.
type Log struct {
	root *os.Root // the directory; not owned
	id   string
	head int64
	tail int64

	// writing serialises the writers. What it guards is only theirs.
	writing sync.Mutex
	relay   relay

	mu      sync.Mutex
	out     *os.File // nil until the first byte, and after End
	made    bool     // there are files
	idx     *os.File
	pos     *position
	size    int64 // bytes that are in the log
	pending int64 // bytes that are being written into the ring after size
	runs    runs
	ended   bool
	wake    chan struct{} // closed when something changed; nil if no reader waits
}

// Suffixes of a log's files.
const (
	suffixOut = ".out"
	suffixIdx = ".idx"
	suffixPos = ".pos"
)

// New returns a log without output. No file is made before the first byte. limit is
// valid: of one that others wrote down Open tells.
func New(dir *os.Root, id string, limit corral.LogLimit) *Log {
	l := &Log{root: dir, id: id, head: limit.Head, tail: limit.Tail, runs: newRuns()}
	l.head = cmp.Or(l.head, corral.LimitOutput.Head)
	l.tail = cmp.Or(l.tail, corral.LimitOutput.Tail)
	return l
}

// Open returns the log that New made earlier with the same arguments, as its
// writer left it. A log without output has no files and is no error.
func Open(dir *os.Root, id string, limit corral.LogLimit) (*Log, error) {
	if !limit.Valid() {
		return nil, fmt.Errorf("cannot open the log of %s: none can have the limit %d+%d", id, limit.Head, limit.Tail)
	}
	l := New(dir, id, limit)
	if err := l.open(); err != nil {
		l.closeFiles()
		return nil, fmt.Errorf("cannot open the log of %s: %w", id, err)
	}
	return l, nil
}

func (l *Log) open() error {
	out, err := l.root.OpenFile(l.id+suffixOut, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.out, l.made = out, true
	info, err := out.Stat()
	if err != nil {
		return err
	}
	l.size = info.Size()
	if l.size > l.head+l.tail {
		return damaged(l.id+suffixOut, fmt.Errorf("it has %d bytes, more than %d+%d", l.size, l.head, l.tail))
	}
	if l.pos, err = openPosition(l.root, l.id+suffixPos); err != nil {
		return err
	}
	if l.pos != nil {
		// How much of what was pending was written is not known, or is
		// settled by AdoptRelay: what it overwrites is gone.
		if l.size, l.pending, err = l.pos.load(); err != nil {
			return err
		}
		if has := min(l.size, l.head+l.tail); info.Size() < has {
			return l.cutShort(info.Size(), has)
		}
	}
	idx, err := l.root.OpenFile(l.id+suffixIdx, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.idx = idx
	if err := l.runs.load(idx); err != nil {
		return damaged(l.id+suffixIdx, err)
	}
	if last := l.runs.last(); l.pos == nil && last > l.size { // it is written before the bytes
		return l.cutShort(l.size, last)
	}
	return nil
}

func (l *Log) cutShort(size, written int64) error {
	return damaged(l.id+suffixOut, fmt.Errorf("it has %d bytes, and %d were written into it", size, written))
}

// Remove deletes the log's files, after End. A log without output has none.
func (l *Log) Remove() error {
	l.mu.Lock()
	root, made := l.root, l.made
	l.mu.Unlock()
	if !made {
		return nil
	}
	return Remove(root, l.id)
}

// Remove deletes the files of a log. Removing twice is no error.
func Remove(dir *os.Root, id string) error {
	var errs []error
	for _, suffix := range []string{suffixOut, suffixIdx, suffixPos, suffixIdx + suffixNew, suffixPos + suffixNew} {
		if err := dir.Remove(id + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Append adds p, which begins at offset off of the output: what the log has
// already is left out, and a hole is an error.
func (l *Log) Append(stream corral.Stream, off int64, p []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	size := l.length()
	if off > size {
		return fmt.Errorf("cannot add to the log of %s: bytes %d to %d are missing", l.id, size, off)
	}
	if off+int64(len(p)) <= size {
		return nil
	}
	p = p[size-off:]
	if err := l.beginRun(stream); err != nil {
		return err
	}
	for len(p) > 0 {
		at, room := l.place()
		part := p[:min(int64(len(p)), room)]
		if l.turned(int64(len(part))) {
			part = part[:min(len(part), maxPending)]
			if err := l.needPosition(); err != nil {
				return err
			}
			if err := l.pos.store(l.size, int64(len(part))); err != nil {
				return fmt.Errorf("cannot write the position of the log of %s: %w", l.id, err)
			}
			l.setPending(int64(len(part)))
		}
		if _, err := l.out.WriteAt(part, at); err != nil {
			return fmt.Errorf("cannot write the log of %s: %w", l.id, err)
		}
		if err := l.advance(int64(len(part))); err != nil {
			return err
		}
		p = p[len(part):]
	}
	return nil
}

func (l *Log) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// place is where in the file the next byte goes and how many fit there in one
// piece.
func (l *Log) place() (at, room int64) {
	if l.size < l.head+l.tail {
		return l.size, l.head + l.tail - l.size
	}
	turn := (l.size - l.head) % l.tail
	return l.head + turn, l.tail - turn
}

// turned tells whether n more bytes overwrite older ones.
func (l *Log) turned(n int64) bool { return l.size+n > l.head+l.tail }

// beginRun makes sure that the bytes that follow are known to be of stream,
// and that the file exists.
func (l *Log) beginRun(stream corral.Stream) error {
	if l.root == nil {
		return fmt.Errorf("cannot add to the log of %s: %w", l.id, fs.ErrClosed)
	}
	if l.out == nil {
		out, err := l.root.OpenFile(l.id+suffixOut, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("cannot make the log of %s: %w", l.id, err)
		}
		l.mu.Lock()
		l.out, l.made = out, true
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs.current() == stream {
		return nil
	}
	if l.idx == nil {
		idx, err := createIndex(l.root, l.id+suffixIdx)
		if err != nil {
			return fmt.Errorf("cannot make the index of the log of %s: %w", l.id, err)
		}
		l.idx = idx
	}
	if err := l.runs.begin(l.idx, l.size, stream); err != nil {
		return fmt.Errorf("cannot write the index of the log of %s: %w", l.id, err)
	}
	return nil
}

func (l *Log) needPosition() error {
	if l.pos != nil {
		return nil
	}
	pos, err := createPosition(l.root, l.id+suffixPos, l.size)
	if err != nil {
		return fmt.Errorf("cannot make the position of the log of %s: %w", l.id, err)
	}
	l.mu.Lock()
	l.pos = pos
	l.mu.Unlock()
	return nil
}

// setPending says that the n bytes after the end are about to overwrite older
// ones, so that no reader takes those for good.
func (l *Log) setPending(n int64) {
	l.mu.Lock()
	l.pending = n
	l.mu.Unlock()
}

// advance says that n bytes more are in the log. The position stays as it was while
// the relay holds more: what it holds tells the rest, and the word must not speak of
// a second batch.
func (l *Log) advance(n int64) error {
	if l.pos != nil && l.relay.held == 0 {
		if err := l.pos.store(l.size+n, 0); err != nil {
			return fmt.Errorf("cannot write the position of the log of %s: %w", l.id, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size += n
	l.pending = max(0, l.pending-n)
	l.runs.trim(l.head, l.size-l.tail)
	l.broadcast()
	return nil
}

func (l *Log) broadcast() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// End says that nothing will be added and lets go of the files; reading goes on.
func (l *Log) End() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.closeFiles()
	l.broadcast()
}

// Abandon lets go of the files of a log that did not end, for a later life of
// this program to open. Readers get fs.ErrClosed.
func (l *Log) Abandon() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeFiles()
	l.root = nil
	l.broadcast()
}

func (l *Log) closeFiles() {
	for _, f := range []**os.File{&l.out, &l.idx} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
	if l.pos != nil {
		l.pos.close()
		l.pos = nil
	}
	l.relay.close()
}

// gap is the range of bytes that are not in the log. What is pending may have
// been written.
func (l *Log) gap() (from, to int64) {
	from = min(l.head, l.runs.headEnd())
	to = min(max(l.size+l.pending-l.tail, l.runs.tailStart()), l.size)
	return from, max(from, to)
}

// Stat implements corral.Log.
func (l *Log) Stat(context.Context) (corral.LogStat, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to := l.gap()
	if from == to {
		from, to = 0, 0
	}
	return corral.LogStat{Size: l.size, GapStart: from, GapEnd: to, Ended: l.ended}, nil
}

// Read implements corral.Log.
func (l *Log) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if off < 0 {
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "offsets count from 0", "cannot read a log from offset %d", off)
	}
	if len(buf) == 0 {
		return corral.Chunk{}, corral.Errorf(corral.ErrInvalid, "give a buffer of at least one byte", "cannot read a log into an empty buffer")
	}
	for {
		l.mu.Lock()
		if l.root == nil {
			l.mu.Unlock()
			return corral.Chunk{}, fmt.Errorf("cannot read the log of %s: %w", l.id, fs.ErrClosed)
		}
		from, to := l.gap()
		if from <= off {
			off = max(off, to)
		}
		if off < l.size {
			stream, end := l.runs.at(off)
			n := min(int64(len(buf)), l.size-off, end-off)
			if off < from {
				n = min(n, from-off)
			}
			at := off
			if off >= l.head {
				turn := (off - l.head) % l.tail
				at, n = l.head+turn, min(n, l.tail-turn)
			}
			out := l.out
			l.mu.Unlock()
			if err := l.readAt(out, buf[:n], at); err != nil {
				return corral.Chunk{}, err
			}
			if l.overwritten(off) {
				continue
			}
			return corral.Chunk{Offset: off, Stream: stream, Data: buf[:n]}, nil
		}
		if l.ended {
			l.mu.Unlock()
			return corral.Chunk{Offset: off}, io.EOF
		}
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		wake := l.wake
		l.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return corral.Chunk{Offset: off}, ctx.Err()
		}
	}
}

// readAt reads from out, or from the file if out was closed because the log
// has ended.
func (l *Log) readAt(out *os.File, p []byte, at int64) error {
	if out != nil {
		_, err := out.ReadAt(p, at)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrClosed) {
			return fmt.Errorf("cannot read the log of %s: %w", l.id, err)
		}
	}
	f, err := l.root.Open(l.id + suffixOut)
	if err != nil {
		return fmt.Errorf("cannot read the log of %s: %w", l.id, err)
	}
	defer f.Close()
	if _, err := f.ReadAt(p, at); err != nil {
		return fmt.Errorf("cannot read the log of %s: %w", l.id, err)
	}
	return nil
}

// overwritten tells whether what was read at off may be newer bytes.
func (l *Log) overwritten(off int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to := l.gap()
	return from <= off && off < to
}

// IDs are those of the logs in a directory.
func IDs(dir *os.Root) ([]string, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, suffixOut); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
