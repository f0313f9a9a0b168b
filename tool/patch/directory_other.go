//go:build !unix

package patch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

const openNonblock = 0

// lockRoot refuses: patches recognize their own files by attributes that only Unix has.
func lockRoot(_ context.Context, _ *os.Root, name string) (io.Closer, error) {
	return nil, corral.Errorf(errors.ErrUnsupported, "use a workspace on Linux or macOS", "cannot apply a patch to the workspace %s on this system", name)
}

func (s *stat) system(fs.FileInfo, *files.User) {}

// setOwnerAndMode does nothing: files have the owner and the permissions of their
// directory.
func setOwnerAndMode(*os.File, fs.FileMode, owner) error { return nil }

// syncDir does nothing: directories cannot be synced.
func syncDir(*os.File) error { return nil }
