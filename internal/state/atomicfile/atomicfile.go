// Package atomicfile writes files that are never seen half written.
//
// A file is written under another name in the same directory, and then takes
// its own. Whoever reads it meanwhile, however the program ends, and whatever
// fails, finds the old file as it was or the new one as a whole. A program that
// is killed meanwhile may leave what it has written under the other name, which
// begins with ".corral-new-".
//
// It replaces files by path, one at a time. What has to hold a directory open
// (os.Root), to keep the new file open and locked, or to change several files as
// one, does so by itself: internal/fleet/pairing, internal/state/journal,
// internal/streamexec, tool/patch and sandbox/files.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Options are how a file is written. The zero value is for what is this user's
// alone and can be made again.
type Options struct {
	// Mode is the file's, whatever the umask. 0: 0600.
	Mode fs.FileMode
	// Durable: the file is on disk under its name when the call returns. If it
	// is not, a power cut soon after may leave the old file, or an empty one.
	Durable bool
	// Prepare is called with the new file, which has its content and its mode
	// by then, before it takes its name: to give it to another user, or to
	// have everything stay as it was, by an error. Nil: there is nothing to do.
	Prepare func(*os.File) error
}

// Write replaces a file, or makes it. A symbolic link of that name is replaced
// itself. After an error the file is the old one, or the new one, which
// may not be on disk yet.
func Write(path string, data []byte, o Options) error {
	return o.write(path, data, os.Rename)
}

// Create makes a file. If there is something of that name the error is
// fs.ErrExist, and nothing is changed. It needs a file system that has hard
// links.
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

// SyncDir has the names in a directory on disk when it returns, on systems where
// that can be asked for: not on Windows.
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
