package wardenbin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/corral-exec/corral"
)

// extract writes data into dir and returns the file's path. The name holds the
// hash, so that wardens of several versions live side by side: a container
// that was made by an older corral still mounts the older file.
func extract(dir string, data []byte) (string, error) {
	fail := func(err error) (string, error) {
		return "", corral.Errorf(corral.ErrUnavailable, "check that the state directory can be written and has room", "cannot write the warden: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(data)
	path := filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:6]))
	same, err := holds(path, data)
	if err != nil {
		return fail(err)
	}
	if same {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	if err := WriteExecutable(path, data); err != nil {
		return fail(err)
	}
	return path, nil
}

// holds reports whether path is a regular file, executable and not writable,
// with that content. Anything else of that name (cut short by a full disk or a
// power cut, tampered with) is to be replaced.
func holds(path string, data []byte) (bool, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if fi.Mode() != 0o555 || fi.Size() != int64(len(data)) {
		return false, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return begins(f, data)
}

// begins reports whether what r reads begins with data. Every command in a sandbox
// without a gateway asks, so it reads in pieces.
func begins(r io.Reader, data []byte) (bool, error) {
	buf := make([]byte, 64<<10)
	for len(data) > 0 {
		n, err := r.Read(buf[:min(len(buf), len(data))])
		if !bytes.Equal(buf[:n], data[:n]) {
			return false, nil
		}
		data = data[n:]
		if errors.Is(err, io.EOF) {
			return len(data) == 0, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// WriteExecutable makes path an executable file with that content, atomically:
// no reader and no execve ever sees part of it. There is no fsync: the
// content is compared before the file is used again.
func WriteExecutable(path string, data []byte) (err error) {
	// A child that another goroutine forks while the file is open for
	// writing holds the descriptor until its own execve, and until then
	// running the file fails with ETXTBSY. No fork happens under this lock.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()

	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
