package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Files of a state directory.
const (
	lockFile    = "lock"
	keyFile     = "key.seed"
	gatewayFile = "gateway.json"
	recordFile  = "running.json"
)

// maxFile bounds what is read of each, in bytes.
const maxFile = 64 << 10

// readPrivate reads a file that no other user can use. The error is fs.ErrNotExist if
// the file does not exist.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, corral.Errorf(corral.ErrDenied, "see who changed it", "%s is not a regular file", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, corral.Errorf(corral.ErrDenied, "see who changed it, then make it a file that only its owner can use (0600)",
			"%s can be used by others (%v)", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, err
}

// writePrivate replaces a file in one step, with one that no other user can use. A
// durable one is on disk when it returns.
func writePrivate(path string, data []byte, durable bool) error {
	if err := atomicfile.Write(path, data, atomicfile.Options{Durable: durable}); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, v any, durable bool) error {
	if err := journal.WriteFile(path, v, atomicfile.Options{Durable: durable}); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// readJSON reports whether there is such a file, and reads it.
func readJSON(path string, v any) (bool, error) {
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = journal.Decode(data, v)
	}
	if err != nil {
		return false, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return true, nil
}
