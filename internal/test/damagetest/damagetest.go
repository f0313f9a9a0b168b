// Package damagetest damages files in every small way, for tests that ask whether a
// program says so: it cuts them at every byte, and flips every bit of them, one at a
// time. Of files over 400 bytes it flips one bit in each byte. What damage over a longer stretch does is not tested here.
package damagetest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const manyBytes = 400

// mostSaid is how many faults of a kind are told one by one.
const mostSaid = 5

// Each calls f with every damaged version of content, and with what was done to it.
func Each(content []byte, f func(how string, damaged []byte)) {
	for n := range content {
		f(fmt.Sprintf("cut after %d of %d bytes", n, len(content)), bytes.Clone(content[:n]))
		for bit := range 8 {
			if len(content) > manyBytes && bit != n%8 {
				continue
			}
			damaged := bytes.Clone(content)
			damaged[n] ^= 1 << bit
			f(fmt.Sprintf("bit %d of byte %d (%q) is another", bit, n, content[n]), damaged)
		}
	}
}

// File puts each damaged version of the file at path there, and calls read: it returns
// what the program reads from the file. That is either what it was before, or an error
// that has the text named in it. Afterwards the file is as it was.
func File[T any](t testing.TB, path, named string, same func(a, b T) bool, read func() (T, error)) {
	t.Helper()
	file(t, path, named, same, read, Each)
}

func file[T any](t testing.TB, path, named string, same func(a, b T) bool, read func() (T, error), each func([]byte, func(string, []byte))) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := read()
	if err != nil {
		t.Fatalf("what is not damaged cannot be read: %v", err)
	}
	put := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent, unnamed, told := 0, 0, 0
	each(content, func(how string, damaged []byte) {
		put(damaged)
		got, err := read()
		switch {
		case err != nil && !strings.Contains(err.Error(), named):
			if unnamed++; unnamed <= mostSaid {
				t.Errorf("%s: the error does not name %s: %v", how, named, err)
			}
		case err != nil:
			told++
		case !same(got, want):
			if silent++; silent <= mostSaid {
				t.Errorf("%s, and nothing says so: %+v, want %+v", how, got, want)
			}
		}
	})
	if silent+unnamed > 0 {
		t.Errorf("nothing is said of %d ways in which the file is damaged, and %d errors do not name it", silent, unnamed)
	}
	if told+unnamed == 0 {
		t.Error("no damage was found at all")
	}
	put(content)
}
