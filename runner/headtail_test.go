package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestHeadTail(t *testing.T) {
	for _, tc := range []struct{ writes, want string }{
		{"", ""},
		{"abc", "abc"},
		{"abcd efgh", "abcdefgh"},
		{"abcdefgh i", "abcd\n[… 1 bytes left out …]\nfghi"},
		{"a b c d e f g h i j k l", "abcd\n[… 4 bytes left out …]\nijkl"},
		{"abcdefghijklmnop q", "abcd\n[… 9 bytes left out …]\nnopq"},
	} {
		file := filepath.Join(testdir.New(t), "log")
		h, err := NewHeadTail(file, 4)
		if err != nil {
			t.Fatal(err)
		}
		for w := range strings.FieldsSeq(tc.writes) {
			if n, err := h.Write([]byte(w)); err != nil || n != len(w) {
				t.Errorf("%q: %d, %v", w, n, err)
			}
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != tc.want {
			t.Errorf("%q: %q, %v; want %q", tc.writes, got, err, tc.want)
		}
	}
}
