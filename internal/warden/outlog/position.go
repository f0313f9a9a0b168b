package outlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A position is how far a ring has been written, in one word: size bytes are
// in the log, and n more were in the relay when it was last filled, or were
// about to be written (0: nothing was, or all of it has been written since).
//
// The word and its checksum are written with one pwrite of 16 aligned bytes, which a
// kill either leaves out or lets happen: they are in one page. Earlier versions wrote
// no checksum.
type position struct{ f *os.File }

// pendingBits holds the largest pipe that the kernel lets anybody have.
const (
	pendingBits = 21
	maxPending  = 1 << (pendingBits - 1)
)

func createPosition(root *os.Root, name string, size int64) (*position, error) {
	f, err := create(root, name, func(f *os.File) error { return (&position{f}).store(size, 0) })
	if err != nil {
		return nil, err
	}
	return &position{f}, nil
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
	return &position{f}, nil
}

const (
	wordSize     = 8
	positionSize = 2 * wordSize

	// positionFormat is in the upper half of the second word; the checksum is in the
	// lower one.
	positionFormat = 0
)

func (p *position) store(size, n int64) error {
	var b [positionSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(size)<<pendingBits|uint64(n))
	binary.BigEndian.PutUint64(b[wordSize:], uint64(checksum(b[:wordSize])))
	_, err := p.f.WriteAt(b[:], 0)
	return err
}

func (p *position) load() (size, n int64, err error) {
	b := make([]byte, positionSize+1)
	k, err := p.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	err = nil
	switch k {
	case wordSize: // an earlier version wrote it
	case positionSize:
		second := binary.BigEndian.Uint64(b[wordSize:])
		err = checkFormat(second>>32, positionFormat)
		if err == nil && uint32(second) != checksum(b[:wordSize]) {
			err = errors.New("its checksum is another one")
		}
	default:
		err = fmt.Errorf("it has neither %d nor %d bytes", wordSize, positionSize)
	}
	if err != nil {
		return 0, 0, damaged(filepath.Base(p.f.Name()), err)
	}
	v := binary.BigEndian.Uint64(b[:])
	return int64(v >> pendingBits), int64(v & (1<<pendingBits - 1)), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func (p *position) close() { p.f.Close() }
