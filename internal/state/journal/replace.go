package journal

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/corral-exec/corral/internal/state/atomicfile"
)

const (
	// CompactFrom is the size up to which a journal is short: it is not worth to
	// write it anew while it is used.
	CompactFrom = 256 << 10
	// Growth is how many times as long as it was then, or as a short one, a journal has
	// to be until it is written anew.
	Growth = 4
)

// Grown reports whether a journal is to be written anew; compacted is the size that it
// had when that was done last, or 0.
func Grown(size, compacted int64) bool { return size >= Growth*max(CompactFrom, compacted) }

// A Place is where a journal is: the name is at times given to another file.
type Place struct {
	Root *os.Root
	Name string
	Lock func(*os.File) error // locks the journal, or what is to take its place
	disk disk
}

// Open opens the journal, or makes it, and locks it. Another program may write it anew
// meanwhile: what is locked is the file that has the name then.
func (p *Place) Open() (*os.File, error) {
	for {
		f, err := p.Root.OpenFile(p.Name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		is := false
		if err = p.Lock(f); err == nil {
			is, err = p.Is(f)
		}
		if is {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// Is reports whether a file is the journal, and not what it was.
func (p *Place) Is(f *os.File) (bool, error) {
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := p.Root.Stat(p.Name)
	return err == nil && os.SameFile(ours, now), nil
}

// Replace has a new file be the journal, in one step: whoever is killed meanwhile leaves
// the old one or the new one. Without an error it is on disk, under its name. An error
// with a file: it is the journal, and a power cut may undo that.
func (p *Place) Replace(write func(io.Writer) error) (*os.File, error) {
	tmp := p.Name + ".new"
	f, err := p.Root.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, Piece)
	err = p.disk.do("write", func() error { return errors.Join(write(w), w.Flush()) })
	if err == nil {
		err = p.disk.do("sync", f.Sync)
	}
	if err == nil {
		err = p.Lock(f)
	}
	if err == nil {
		err = p.disk.do("rename", func() error { return p.Root.Rename(tmp, p.Name) })
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), p.Root.Remove(tmp))
	}
	return f, p.disk.do("syncdir", func() error { return atomicfile.SyncDir(p.Root.Name()) })
}

// A disk may fail, as a test has it.
type disk func(op string) error

func (d disk) do(op string, f func() error) error {
	if d != nil {
		if err := d(op); err != nil {
			return err
		}
	}
	return f()
}
