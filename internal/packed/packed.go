// Package packed makes data smaller that crosses a connection. Most of what a command
// prints is text, which LZ4 makes five times smaller. That costs both ends less time than
// the bytes would.
//
// A block is the length of its data as a varint, and an LZ4 block.
package packed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// Bounds of the data of a block, in bytes.
const (
	Least = 4 << 10
	Most  = 256 << 10
)

// Append adds the block of data after b, unless it would save less than an eighth, or data
// is not within the bounds.
func Append(b, data []byte) (_ []byte, ok bool) {
	n := len(data)
	if n < Least || n > Most {
		return b, false
	}
	start, room := len(b), n/8*7
	grown := slices.Grow(b, room)
	block := grown[start : start+room]
	head := binary.PutUvarint(block, uint64(n))
	k, err := lz4.CompressBlock(data, block[head:], nil)
	if err != nil || k == 0 { // it does not fit
		return grown[:start], false
	}
	return grown[:start+head+k], true
}

var errBlock = errors.New("no block of packed data")

// Open returns the data of a block, in the memory of into if there is enough. It is an
// error if that would be more than most bytes.
func Open(into, block []byte, most int) ([]byte, error) {
	n, head := binary.Uvarint(block)
	// The decoder does not check for a destination that is empty.
	if head <= 0 || n < Least || n > uint64(most) {
		return nil, fmt.Errorf("%w: it says that it has %d bytes", errBlock, n)
	}
	data := slices.Grow(into[:0], int(n))[:n]
	switch k, err := lz4.UncompressBlock(block[head:], data); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errBlock, err)
	case k != len(data):
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", errBlock, k, n)
	}
	return data, nil
}
