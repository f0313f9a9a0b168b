package outlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// An index begins with a header, has a word for each change of stream, and then words
// of zero: its size is always a multiple of indexPiece, and there is always at least one
// word of zero. So an index that is cut, wherever that is, is not one that had fewer
// changes. Earlier versions wrote the words alone; their files are read, and written on,
// as they are.
const (
	indexPiece  = 4 << 10
	indexFormat = 2

	indexMagic = "CIDX"
)

// indexHeader is the first word of an index: the magic, 16 bits of a checksum, and the
// format. Its lowest two bits are no stream, so earlier versions refuse the index.
func indexHeader(format uint64) []byte {
	v := uint64(binary.BigEndian.Uint32([]byte(indexMagic)))<<32 | format<<2
	return binary.BigEndian.AppendUint64(nil, v|sumOf(v)<<16)
}

// checkHeader reads an index's first word. It is false for the index of an earlier
// version, which has no header.
func checkHeader(word []byte) (bool, error) {
	if !bytes.HasPrefix(word, []byte(indexMagic)) {
		return false, nil
	}
	format := binary.BigEndian.Uint64(word) & 0xffff >> 2
	if !bytes.Equal(word, indexHeader(format)) {
		return false, errors.New("the checksum of its header is another one")
	}
	return true, checkFormat(format, indexFormat)
}

var errNewer = errors.New("a newer version of Corral wrote it")

// checkFormat refuses what this program cannot read.
func checkFormat(format, known uint64) error {
	if format > known {
		return fmt.Errorf("%w: its format is %d, and this program knows those up to %d", errNewer, format, known)
	}
	return nil
}

// damaged is the error of a file of a log.
func damaged(name string, err error) error {
	if errors.Is(err, errNewer) {
		return fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return fmt.Errorf("%s is damaged: %w", name, err)
}

// suffixNew is of a file that is not complete yet.
const suffixNew = ".new"

// create makes a file that is never seen without what fill writes.
func create(root *os.Root, name string, fill func(*os.File) error) (*os.File, error) {
	f, err := root.OpenFile(name+suffixNew, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err = fill(f); err == nil {
		err = root.Rename(name+suffixNew, name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func createIndex(root *os.Root, name string) (*os.File, error) {
	return create(root, name, func(f *os.File) error {
		_, err := f.WriteAt(indexHeader(indexFormat), 0)
		return errors.Join(err, f.Truncate(indexPiece))
	})
}

// words returns the words of an index, and whether a header was before them.
func words(index []byte) (_ []byte, header bool, err error) {
	if len(index) < runSize {
		return nil, false, errors.New("it was cut short")
	}
	if header, err = checkHeader(index[:runSize]); !header || err != nil {
		return index, false, err
	}
	used := bytes.TrimRight(index, "\x00")
	n := (len(used) + runSize - 1) / runSize * runSize
	if len(index)%indexPiece != 0 || n > len(index)-runSize {
		return nil, true, errors.New("it was cut short")
	}
	return index[runSize:n], true, nil
}
