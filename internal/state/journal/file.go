package journal

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
)

// Options configure a File.
type Options struct {
	Name string // of the file
	Lock string // a file beside it to lock in its place; empty: lock the journal itself
	What string // a description for errors: "the table of sessions"

	// Each handles a line when the journal is opened; see Reader.
	Each func(Line) error
	// Sync: a line is on disk when Append returns. Otherwise it survives the program,
	// but perhaps not a power cut soon after.
	Sync bool
	// Strict: a damaged line is an error of Open, and an incomplete last line is cut
	// off. Otherwise both are kept aside.
	Strict bool
}

// A File is a journal that belongs to one program at a time.
type File struct {
	Damage Damage // the unreadable parts
	Aside  string // the file that holds them
	Inside bool   // there is more damage than an unfinished last line, which no caller relied on
	Cut    int64  // bytes that were cut off

	opts  Options
	root  *os.Root
	place Place
	lock  *os.File // nil: the journal itself is locked

	compacting sync.Mutex // one at a time; comes before mu

	mu        sync.Mutex
	f         *os.File // nil: closed
	size      int64    // of whole lines
	compacted int64    // size after the last compaction
	anew      bool     // compact it, whatever its size
	added     []byte   // lines added during a compaction; else nil
	torn      error    // why the file may be longer than size
}

// Open opens or creates a journal for this program alone. The error is
// filelock.ErrLocked if another program has it open, and with Strict ErrLine if it is
// damaged.
func Open(dir string, o Options) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	j := &File{opts: o, root: root}
	if err = j.open(); err == nil {
		err = j.read()
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *File) open() (err error) {
	if j.opts.Lock != "" {
		if j.lock, err = j.root.OpenFile(j.opts.Lock, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		if err = filelock.Own(j.lock); err != nil {
			return err
		}
	}
	j.place = Place{j.root, j.opts.Name, j.own, nil}
	if j.f, err = j.place.Open(); err != nil {
		return err
	}
	return atomicfile.SyncDir(j.root.Name())
}

func (j *File) own(f *os.File) error {
	if j.lock != nil {
		return nil
	}
	return filelock.Own(f)
}

func (j *File) read() error {
	info, err := j.f.Stat()
	if err != nil {
		return err
	}
	j.size = info.Size()
	r := Reader{Each: j.opts.Each, Damage: &j.Damage}
	if j.opts.Strict {
		r.Damage = nil
	}
	if err := r.Read(j.f, j.size, false); err != nil {
		return err
	}
	if j.opts.Strict {
		if j.size, j.Cut = r.At, j.size-r.At; j.Cut > 0 {
			return j.f.Truncate(j.size)
		}
		return nil
	}
	j.Inside = j.Damage.Any()
	if err := r.Read(j.f, j.size, true); err != nil || !j.Damage.Any() {
		return err
	}
	j.anew = true
	j.Aside, err = j.Damage.Keep(j.root, j.opts.Name)
	return err
}

// Size returns the size of the whole lines of the file, in bytes.
func (j *File) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Append adds a line. The line includes its end. Without Strict it also begins with a
// line end, since an earlier program may have left the line before it incomplete. After
// an error the line is not in the journal: written parts of it are cut off.
func (j *File) Append(line []byte) error {
	if len(line) > MaxLine+1 {
		return corral.Errorf(corral.ErrInvalid, "", "cannot write %s: a line has %d bytes, of at most %d", j.opts.What, len(line), MaxLine)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return corral.Errorf(corral.ErrUnavailable, "", "%s is closed", j.opts.What)
	}
	err := j.torn
	if err != nil && !j.opts.Sync {
		err = j.cut()
	}
	if err == nil {
		if err = j.write(line); err != nil {
			j.torn = err
			_ = j.cut() // if this fails, the next call tries again
		}
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot write %s: %w", j.opts.What, err)
	}
	j.size += int64(len(line))
	if j.added != nil {
		j.added = append(j.added, line...)
	}
	return nil
}

func (j *File) write(line []byte) error {
	err := j.place.disk.do("write", func() error {
		_, err := j.f.Write(line)
		return err
	})
	if err == nil && j.opts.Sync {
		err = j.place.disk.do("sync", j.f.Sync)
	}
	return err
}

// cut removes everything after the whole lines from the file.
func (j *File) cut() error {
	err := j.place.disk.do("cut", func() error { return j.f.Truncate(j.size) })
	if err == nil && j.opts.Sync {
		err = j.place.disk.do("sync", j.f.Sync)
	}
	if err == nil {
		j.torn = nil
	}
	return err
}

// Grown reports whether to compact the journal: it has grown enough, or was damaged.
func (j *File) Grown() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.f != nil && (j.anew || Grown(j.size, j.compacted))
}

// Compact replaces the journal by the equivalent lines from snapshot. Lines that are
// added meanwhile go into both files, so repeating a line must change nothing.
func (j *File) Compact(snapshot func() ([]byte, error)) error {
	j.compacting.Lock()
	defer j.compacting.Unlock()
	j.mu.Lock()
	j.added = []byte{}
	j.mu.Unlock()
	b, err := snapshot()
	j.mu.Lock()
	defer j.mu.Unlock()
	added := j.added
	j.added = nil
	if err != nil || j.f == nil {
		return err
	}
	f, err := j.place.Replace(func(w io.Writer) error {
		_, err := w.Write(append(b, added...))
		return err
	})
	if f != nil {
		err = errors.Join(err, j.f.Close())
		j.f, j.size, j.compacted, j.anew, j.torn = f, int64(len(b)+len(added)), int64(len(b)), false, nil
	}
	return err
}

// Fail makes those disk operations fail for which f returns an error: "write", "sync",
// "cut", "rename" and "syncdir". It is for tests.
func (j *File) Fail(f func(op string) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.place.disk = f
}

// Close closes the journal; then another program can open it.
func (j *File) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, f := range []**os.File{&j.f, &j.lock} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(append(errs, j.root.Close())...)
}
