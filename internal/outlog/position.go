package outlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A position is how far a ring has been written, in one word: size bytes are
// in the log, and n more were in the relay when it was last filled, or were
// about to be written (0: nothing was, or all of it has been written since).
//
// The word is written with one pwrite of 8 aligned bytes, which a kill either
// leaves out or lets happen.
type position struct{ f *os.File }

// pendingBits holds the largest pipe that the kernel lets anybody have.
const (
	pendingBits = 21
	maxPending  = 1 << (pendingBits - 1)
)

func createPosition(root *os.Root, name string, size int64) (*position, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &position{f}
	if err := p.store(size, 0); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// openPosition returns nil if there is none: the ring has not turned.
func openPosition(root *os.Root, name string) (*position, error) {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() != 8 {
		f.Close()
		if err == nil && info.Size() == 0 {
			return nil, nil // killed before the first store: nothing was overwritten
		}
		return nil, errors.Join(err, fmt.Errorf("%s is damaged", name))
	}
	return &position{f}, nil
}

func (p *position) store(size, n int64) error {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(size)<<pendingBits|uint64(n))
	_, err := p.f.WriteAt(b[:], 0)
	return err
}

func (p *position) load() (size, n int64, err error) {
	var b [8]byte
	if _, err := p.f.ReadAt(b[:], 0); err != nil {
		return 0, 0, err
	}
	v := binary.BigEndian.Uint64(b[:])
	return int64(v >> pendingBits), int64(v & (1<<pendingBits - 1)), nil
}

func (p *position) close() { p.f.Close() }
