package pairing

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
)

const (
	fileName = "nodes.jsonl"
	lockName = "nodes.lock"
	newName  = fileName + ".new"
	maxFile  = 256 << 20 // bytes
)

// store is a directory that this process alone writes to.
type store struct {
	dir      *os.Root
	lock     *os.File
	unsynced bool
}

// openStore locks a directory and reads its state.
func openStore(dir string) (_ *store, _ *state, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, corral.Errorf(corral.ErrInvalid, "", "cannot tell where the registry of nodes is: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "", "cannot make the directory of the registry of nodes: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "", "cannot open the directory of the registry of nodes: %w", err)
	}
	s := &store{dir: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	info, err := root.Stat(".")
	if err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "", "cannot open the directory of the registry of nodes: %w", err)
	}
	if err := checkDir(dir, info); err != nil {
		return nil, nil, err
	}
	if s.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|noFollow, 0o600); err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "", "cannot lock the registry of nodes: %w", err)
	}
	if err := filelock.Own(s.lock); err != nil {
		return nil, nil, corral.Errorf(corral.ErrConflict, "stop the program that has it open, or use another state directory",
			"another program has the registry of nodes in %s open: %w", dir, err)
	}
	text, err := s.readText()
	if errors.Is(err, fs.ErrNotExist) {
		return s, newState(), nil
	}
	path := filepath.Join(dir, fileName)
	if err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot read the registry of nodes: %w", err)
	}
	st, err := parse(text)
	if err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "put back a copy of it, or move it away and pair the nodes again; nobody is a node until then",
			"cannot trust the registry of nodes: %s:%w", path, err)
	}
	return s, st, nil
}

func (s *store) readText() ([]byte, error) {
	path := filepath.Join(s.dir.Name(), fileName)
	info, err := s.dir.Lstat(fileName)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refuse(path, "is not a regular file")
	}
	f, err := s.dir.OpenFile(fileName, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if err := checkFile(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

func refuse(path, what string) error {
	return corral.Errorf(corral.ErrDenied, "see who changed it, then make it a file that only its owner can read and write (0600); nobody is a node until then",
		"%s %s, so what it says cannot be relied upon", path, what)
}

// write replaces the file in one step. After an error it is the old file or the new
// one.
func (s *store) write(st *state, _ time.Duration) (err error) {
	defer func() {
		if err != nil {
			err = corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot write the registry of nodes: %w", err)
		}
	}()
	text, err := st.encode()
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it would have %d bytes, of at most %d", len(text), maxFile)
	}
	if err != nil {
		return err
	}
	// A file that a killed process left is useless, and may have any type.
	if err := s.dir.Remove(newName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.dir.OpenFile(newName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && !s.unsynced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.dir.Rename(newName, fileName)
	}
	if err != nil {
		return errors.Join(err, s.dir.Remove(newName))
	}
	if s.unsynced {
		return nil
	}
	return syncDir(s.dir)
}

// read returns nil: no other program writes.
func (s *store) read(time.Duration) (*state, error) { return nil, nil } //nolint:nilnil // it says so

func (s *store) news() <-chan struct{} { return nil }

func (s *store) close() error {
	var err error
	if s.lock != nil {
		err = s.lock.Close()
	}
	return errors.Join(err, s.dir.Close())
}
