package files_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// Files in /proc say that they have no bytes, and have some.
func TestFilesThatSeemEmpty(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(want))
	for name, f := range map[string]files.FS{
		"directory": files.Directory{Path: "/proc", Root: "/proc"},
		"portable":  files.Portable(files.Directory{Path: "/proc", Root: "/proc"}),
		"commands":  files.Commands{Exec: newHost(t), Root: "/"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				o    files.ReadOptions
				want []byte
			}{
				{files.ReadOptions{}, want}, {files.ReadOptions{Offset: 3}, want[3:]}, {files.ReadOptions{Limit: 5}, want[:5]},
				{files.ReadOptions{Offset: 2, Limit: 5}, want[2:7]}, {files.ReadOptions{Limit: n + 10}, want}, {files.ReadOptions{Offset: n}, nil},
			} {
				var got bytes.Buffer
				err := f.Read(t.Context(), "/proc/version", c.o, func(files.Info) (io.Writer, error) { return &got, nil })
				if err != nil || !bytes.Equal(got.Bytes(), c.want) {
					t.Errorf("%+v: %q, %v", c.o, got.Bytes(), err)
				}
			}
			dir := testdir.New(t)
			if _, err := files.Copy(t.Context(), f, "/proc/version", files.Directory{Path: dir, Root: "/"}, "/v", files.Limits{}); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "v")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the copy holds %q, %v", got, err)
			}
			if _, err := f.Download(t.Context(), "/proc/version", io.Discard, files.Limits{Bytes: n - 1}); err == nil {
				t.Error("the limit does not count what there is")
			}
			// Not even root can read this one at its beginning.
			err := f.Read(t.Context(), "/proc/self/mem", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return io.Discard, nil })
			if err == nil || errors.Is(err, os.ErrNotExist) {
				t.Errorf("what cannot be read: %v", err)
			}
		})
	}
}
