package files_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// A file that is read is described as by Stat: with the owner that the sandbox sees.
func TestReadDescribesAsStat(t *testing.T) {
	work := testdir.New(t)
	name := filepath.Join(work, "f")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o751|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	d := files.Directory{
		Path: work, Root: "/workspace", User: &files.User{UID: os.Geteuid(), GID: os.Getegid()},
		Shown: func() (*files.User, error) { return &files.User{UID: 7, GID: 8}, nil },
	}
	both(t, d, func(t *testing.T, f files.FS) {
		want, err := f.Stat(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		err = f.Read(t.Context(), "f", files.ReadOptions{}, func(got files.Info) (io.Writer, error) {
			if got.UID != 7 || got.GID != 8 || got.UID != want.UID || got.GID != want.GID || got.Mode != want.Mode || got.Setuid != want.Setuid {
				t.Errorf("read as %+v; it is %+v", got, want)
			}
			return io.Discard, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
