// Package pattern makes bytes that can be checked at any offset: a program
// prints them, so that a reader who starts in the middle knows what has to
// be there. It makes no attempt at randomness beyond being free of short
// periods.
package pattern

import (
	"bytes"
	"encoding/binary"
)

// Fill stores in dst what the pattern named by seed has at offset off.
func Fill(dst []byte, seed uint64, off int64) {
	var word [8]byte
	for len(dst) > 0 {
		if off%8 == 0 && len(dst) >= 8 {
			binary.LittleEndian.PutUint64(dst, mix(seed, off/8))
			dst, off = dst[8:], off+8
			continue
		}
		binary.LittleEndian.PutUint64(word[:], mix(seed, off/8))
		n := copy(dst, word[off%8:])
		dst, off = dst[n:], off+int64(n)
	}
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// FillText is Fill with letters, digits, '-' and '_' only, which pass a
// terminal unchanged.
func FillText(dst []byte, seed uint64, off int64) {
	Fill(dst, seed, off)
	for i, b := range dst {
		dst[i] = letters[b&63]
	}
}

// Equal reports whether got is what the pattern has at offset off.
func Equal(got []byte, seed uint64, off int64) bool {
	want := make([]byte, len(got))
	Fill(want, seed, off)
	return bytes.Equal(got, want)
}

// mix is the finalizer of splitmix64.
func mix(seed uint64, word int64) uint64 {
	z := seed + uint64(word+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
