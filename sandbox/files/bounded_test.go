package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestBoundedByMost(t *testing.T) {
	for limit, want := range map[int64]bool{4: false, 5: true, math.MaxInt64: true} {
		if text, err := io.ReadAll(Bounded(strings.NewReader("hello"), limit)); (err == nil && string(text) == "hello") != want {
			t.Errorf("by %d: %q, %v", limit, text, err)
		}
	}
}

// Who unpacks an archive remembers its names, which may be long.
func TestArchiveOfLongNames(t *testing.T) {
	limits := Limits{Entries: 1000}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	long := strings.Repeat(strings.Repeat("n", 200)+"/", 19)
	for i := range limits.Entries {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(long, i), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := newArchive(&b, limits)
	for n := 0; ; n++ {
		switch _, err := a.next(); {
		case err == nil:
			continue
		case !errors.Is(err, corral.ErrInvalid) || n < 80 || n > 110:
			t.Errorf("after %d entries: %v", n, err)
		}
		return
	}
}
