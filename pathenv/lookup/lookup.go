// Package lookup finds the file that a program's name stands for, by the PATH
// and the working directory of the command and never by this process's own.
//
// It imports next to nothing, so that the supervisor of commands, which must
// stay small, can use it alone. It does not read PATH from anywhere and does
// not start anything.
package lookup

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// The two ways not to find a program. A shell exits with 127 for the first and
// with 126 for the second; see ExitCode.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("not executable")
)

// An Error says which program was not found, in the words of a shell.
type Error struct {
	Name string // as asked for
	File string // what stands there instead, for ErrNotExecutable
	Err  error  // ErrNotFound or ErrNotExecutable
}

func (e *Error) Error() string {
	if e.File != "" && e.File != e.Name {
		return e.Name + ": " + e.Err.Error() + ": " + e.File
	}
	return e.Name + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is what a shell exits with for an error of Program.
func ExitCode(err error) int {
	if errors.Is(err, ErrNotExecutable) {
		return 126
	}
	return 127
}

// Program returns the file to execute for name. A name with a slash is a file,
// relative to dir. Any other is looked for in the directories of path, of
// which relative ones are relative to dir and empty ones are skipped: the
// first regular file that may be executed wins, and a match that may not be
// executed is passed over.
func Program(name, path, dir string) (string, error) {
	if name == "" {
		return "", &Error{Name: `""`, Err: ErrNotFound}
	}
	if hasSlash(name) {
		file := inDir(dir, name)
		found, err := executable(file)
		switch {
		case err == nil:
			return found, nil
		case errors.Is(err, ErrNotExecutable), errors.Is(err, errDirectory), errors.Is(err, fs.ErrPermission):
			return "", &Error{Name: name, File: file, Err: ErrNotExecutable}
		}
		return "", &Error{Name: name, Err: ErrNotFound}
	}
	refused := ""
	for entry := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if entry == "" {
			continue
		}
		file := strings.TrimSuffix(inDir(dir, entry), "/") + "/" + name
		found, err := executable(file)
		if err == nil {
			return found, nil
		}
		if errors.Is(err, ErrNotExecutable) && refused == "" {
			refused = file
		}
	}
	if refused != "" {
		return "", &Error{Name: name, File: refused, Err: ErrNotExecutable}
	}
	return "", &Error{Name: name, Err: ErrNotFound}
}

// Executable reports whether file is a regular file that may be executed.
func Executable(file string) bool {
	_, err := executable(file)
	return err == nil
}

// errDirectory: a search passes over a directory without a word, as if it were
// not there; asked for by its path it is not executable.
var errDirectory = errors.New("is a directory")

// regular checks that file, or what it links to, is a regular file.
func regular(file string) (fs.FileInfo, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, ErrNotExecutable
	}
	return info, nil
}

// inDir does not clean the name: with symbolic links "a/../b" is not "b".
func inDir(dir, file string) string {
	if dir == "" || isAbs(file) {
		return file
	}
	return strings.TrimSuffix(dir, "/") + "/" + file
}
