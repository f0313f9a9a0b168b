package policy

import (
	"io/fs"
	"os"
)

// OS is the file system of this machine, as this process may use it.
type OS struct{}

// Stat implements View.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Type is that of path itself; it does not follow a symbolic link.
func (OS) Type(path string) (fs.FileMode, error) { return typeOf(path) }

// RealPath implements View.
func (OS) RealPath(path string) (string, error) { return realPath(path) }

// Executable implements View.
func (OS) Executable(path string) error { return executable(path) }

// Open implements View. It does not wait for a writer of a named pipe.
func (OS) Open(path string) (fs.File, error) { return os.OpenFile(path, os.O_RDONLY|nonblock, 0) }
