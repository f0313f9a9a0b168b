package files

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree with many names in each of many directories in one another does not take memory for
// all of them: they are known before there is an entry for them.
func TestNamesAreBounded(t *testing.T) {
	defer func(was int) { maxSkipped = was }(maxSkipped)
	maxSkipped = 10
	d := Directory{Path: t.TempDir(), Root: "/workspace"}
	dir := func(name string, fifos int) {
		t.Helper()
		at := filepath.Join(d.Path, name)
		err := unix.Mkdir(at, 0o700)
		for n := range fifos {
			err = errors.Join(err, unix.Mkfifo(filepath.Join(at, fmt.Sprint("z", n)), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"in", "in/in", "in/in/in", "in/in/in/in"} {
		dir(name, 6)
	}
	if got, err := d.Download(t.Context(), "/workspace/in", io.Discard, Limits{Entries: 10}); !errors.Is(err, errTooMany) {
		t.Errorf("in one another: %+v, %v", got, err)
	}
	dir("beside", 0)
	dir("beside/a", 15)
	dir("beside/b", 15)
	if got, err := d.Download(t.Context(), "/workspace/beside", io.Discard, Limits{Entries: 10}); err != nil || got.Skipped != 30 {
		t.Errorf("beside one another: %+v, %v", got, err)
	}
}
