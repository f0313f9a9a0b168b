// Package atomicfile writes files that are never seen half written.
//
// A file is written under another name in the same directory, and then renamed. A
// reader always finds either the complete old file or the complete new one, even if the
// program dies or a step fails. A killed program may leave its data under the other
// name, which begins with ".corral-new-".
//
// It replaces files by path, one at a time. Some packages need to hold a directory open
// (os.Root), to keep the new file open and locked, or to change several files in one
// step. They have code of their own: internal/fleet/pairing, internal/state/journal,
// internal/streamexec, tool/patch and sandbox/files.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Options configure a write. The zero value is for private data that can be made again.
type Options struct {
	// Mode is the file's mode, regardless of the umask. 0: 0600.
	Mode fs.FileMode
	// Durable: the file is on disk under its name when the call returns. Without it a
	// power cut soon after may leave the old file, or an empty one.
	Durable bool
	// Prepare is called before the rename, with the new file, which has its content and
	// mode. It can give the file to another user. An error cancels the write. Nil: no
	// preparation.
	Prepare func(*os.File) error
}

// Write replaces or creates a file. A symbolic link of that name is replaced itself.
// After an error the file is the old one or the new one, which may not be on disk yet.
func Write(path string, data []byte, o Options) error {
	return o.write(path, data, os.Rename)
}

// Create creates a file. If the name exists the error is fs.ErrExist, and nothing
// changes. The file system has to support hard links.
func Create(path string, data []byte, o Options) error {
	return o.write(path, data, os.Link)
}

func (o Options) write(path string, data []byte, name func(tmp, path string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".corral-new-") // 0600
	if err != nil {
		return err
	}
	if err = errors.Join(o.fill(f, data), f.Close()); err == nil {
		err = name(f.Name(), path)
	}
	if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) { // it was not renamed
		err = errors.Join(err, rerr)
	}
	if err == nil && o.Durable {
		err = SyncDir(dir)
	}
	return err
}

func (o Options) fill(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if o.Mode != 0 {
		if err := f.Chmod(o.Mode); err != nil {
			return err
		}
	}
	if o.Prepare != nil {
		if err := o.Prepare(f); err != nil {
			return err
		}
	}
	if o.Durable {
		return f.Sync()
	}
	return nil
}

// Sync has a file that was written without Durable be as if it was written with it.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows syncs no file that cannot be written to
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs the names in a directory to disk. On Windows it does nothing.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
