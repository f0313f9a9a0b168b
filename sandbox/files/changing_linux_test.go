package files_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/sandbox/files"
)

// A tree is copied also while a file, a directory and a link in it change places.
func TestCopyWhileKindsChange(t *testing.T) {
	root := t.TempDir()
	names := []string{filepath.Join(root, "sub/a"), filepath.Join(root, "sub/b"), filepath.Join(root, "sub/c")}
	if err := errors.Join(os.MkdirAll(filepath.Join(names[0], "below"), 0o700), os.WriteFile(names[1], []byte("content"), 0o600), os.Symlink("b", names[2])); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, names[i%3], unix.AT_FDCWD, names[(i+1)%3], unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for began := time.Now(); time.Since(began) < time.Second && !t.Failed(); {
		if _, err := (files.Directory{Path: root, Root: "/"}).Download(t.Context(), "/", io.Discard, files.Limits{}); err != nil {
			t.Error(err)
		}
	}
	close(done)
	<-ended
}
