package approval

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
)

// fileID identifies a file and its content: it differs after a change.
type fileID struct {
	Identity
	mode fs.FileMode
	size int64
	time time.Time
}

func idOf(info fs.FileInfo) fileID {
	return fileID{identify(info), info.Mode(), info.Size(), info.ModTime()}
}

// settled reports whether every later change of a file that was read at that time will
// change its fileID. A change within the same tick of the file system's clock would not.
func (id fileID) settled(read time.Time) bool {
	const tick = time.Second // with room to spare, for any file system
	return read.Sub(id.time) > tick && read.Sub(time.Unix(0, id.Changed)) > tick
}

func statFile(path string) (fileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, err
	}
	return idOf(info), nil
}

// readFile reads a file, and refuses it if others than its owner can write to it.
func readFile(path string) ([]byte, fileID, error) {
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, fileID{}, err
	}
	for range 10 {
		text, id, err := readOnce(path)
		if !errors.Is(err, errChanging) {
			return text, id, err
		}
	}
	return nil, fileID{}, corral.Errorf(corral.ErrDenied, "try again", "cannot read %s: %w", path, errChanging)
}

var errChanging = errors.New("it changes all the time")

func readOnce(path string) ([]byte, fileID, error) {
	f, err := openNoFollow(path)
	if err != nil {
		return nil, fileID{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fileID{}, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, fileID{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fileID{}, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, fileID{}, err
	}
	if idOf(after) != idOf(info) {
		return nil, fileID{}, errChanging
	}
	return text, idOf(info), nil
}

// locked runs a change under a lock against other processes. If another program, such as
// an editor, changed the file meanwhile, it runs it again.
func (f *File) locked(change func(path string) error) error {
	path := f.Path()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "cannot make the directory of the approvals: %w", err)
	}
	if err := checkLinks(path); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, hintWrite, "cannot lock the approvals: %w", err)
	}
	defer lock.Close()
	if err := filelock.Lock(lock); err != nil {
		return corral.Errorf(corral.ErrUnavailable, hintWrite, "cannot lock the approvals: %w", err)
	}
	for range 10 {
		if err = change(path); !errors.Is(err, errChanging) {
			return err
		}
	}
	return corral.Errorf(corral.ErrUnavailable, "close the program that writes to it", "cannot write %s: %w", path, errChanging)
}

const hintWrite = "see whether the disk is full, and who owns the directory"

// writeFile replaces a file in one step. was is its identity when it was read; if it has
// another one by now, the error is errChanging.
func writeFile(path string, text []byte, was fileID) error {
	if len(text) > maxFile {
		return corral.Errorf(corral.ErrUnavailable, "remove entries that are no longer used", "the approvals in %s would be larger than %d bytes", path, maxFile)
	}
	unchanged := func(f *os.File) error {
		if err := f.Sync(); err != nil { // takes long, so not between this and the rename
			return err
		}
		if now, err := statFile(path); now != was && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			return errChanging
		}
		return nil
	}
	if err := atomicfile.Write(path, text, atomicfile.Options{Durable: true, Prepare: unchanged}); err != nil {
		return corral.Errorf(corral.ErrUnavailable, hintWrite, "cannot write the approvals: %w", err)
	}
	return nil
}

// checkLinks refuses to write through symbolic links: the author of a link would choose
// the file that is written.
func checkLinks(path string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return corral.Errorf(corral.ErrDenied, "name the file that it points to", "refusing to write the approvals via symlink %s", path)
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return corral.Errorf(corral.ErrUnavailable, "", "cannot write the approvals: %w", err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return corral.Errorf(corral.ErrDenied, "name the file by its real path", "refusing to traverse symlink %s to write the approvals in %s", dir, path)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// notOurs is the error for a file or directory that others can change.
func notOurs(path, what string) error {
	return corral.Errorf(corral.ErrDenied, "see who changed it, then: chmod go-w "+path+"; nothing is allowed until then", "%w",
		&FileError{File: path, Text: fmt.Sprintf("it %s, so what it says cannot be relied upon", what)})
}
