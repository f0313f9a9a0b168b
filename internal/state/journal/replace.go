package journal

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/corral-exec/corral/internal/state/atomicfile"
)

const (
	// CompactFrom is the size up to which a journal is short, and not worth compacting
	// while it is in use.
	CompactFrom = 256 << 10
	// Growth is the factor by which a journal has to grow since the last compaction, or
	// beyond CompactFrom, before it is compacted.
	Growth = 4
)

// Grown reports whether to compact a journal; compacted is its size after the last
// compaction, or 0.
func Grown(size, compacted int64) bool { return size >= Growth*max(CompactFrom, compacted) }

// A Place is the name of a journal. Another file may take over the name.
type Place struct {
	Root *os.Root
	Name string
	Lock func(*os.File) error // locks the journal, or its replacement
	disk disk
}

// Open opens or creates the journal, and locks it. If another program replaces it
// meanwhile, Open locks the replacement.
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

// Is reports whether f is still the journal, and was not replaced.
func (p *Place) Is(f *os.File) (bool, error) {
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := p.Root.Stat(p.Name)
	return err == nil && os.SameFile(ours, now), nil
}

// Replace replaces the journal in one step: a kill leaves the old file or the new one.
// Without an error the new file is on disk, under its name. An error together with a
// file: the file is the journal, but a power cut may undo that.
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

// A disk makes operations fail in tests.
type disk func(op string) error

func (d disk) do(op string, f func() error) error {
	if d != nil {
		if err := d(op); err != nil {
			return err
		}
	}
	return f()
}
