package outlog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Where a warden cannot hand back a pipe that it keeps, the pipe has a name beside the
// log's files. What is in it stays while a process has it open, and the next program
// opens it by its name.

// NewPipe makes a pipe with a name, in place of an earlier one. The ends, to read and
// to write, do not wait.
func NewPipe(dir *os.Root, id, role string) (fds [2]int, err error) {
	d, err := dir.Open(".")
	if err != nil {
		return fds, err
	}
	defer d.Close()
	name := id + suffixPipe + role
	if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fds, fmt.Errorf("cannot make the pipe %s: %w", name, err)
	}
	if err := unix.Mkfifoat(int(d.Fd()), name, 0o600); err != nil {
		return fds, fmt.Errorf("cannot make the pipe %s: %w", name, err)
	}
	for end := range fds {
		if fds[end], err = openEnd(int(d.Fd()), name, end); err != nil {
			for _, fd := range fds[:end] {
				unix.Close(fd)
			}
			return fds, fmt.Errorf("cannot open the pipe %s: %w", name, err)
		}
	}
	return fds, nil
}

// OpenPipe opens an end of a pipe that an earlier life has made: 0 to read, 1 to
// write. It does not wait.
func OpenPipe(dir *os.Root, id, role string, end int) (int, error) {
	d, err := dir.Open(".")
	if err != nil {
		return -1, err
	}
	defer d.Close()
	name := id + suffixPipe + role
	// The other end too, for a moment: without a reader it cannot be opened to write,
	// and one who opens it to read after the last writer has gone is not told so.
	other, err := openEnd(int(d.Fd()), name, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open the pipe %s: %w", name, err)
	}
	fd, err := openEnd(int(d.Fd()), name, 1)
	if err != nil {
		unix.Close(other)
		return -1, fmt.Errorf("cannot open the pipe %s: %w", name, err)
	}
	if end == 0 {
		fd, other = other, fd
	}
	unix.Close(other)
	return fd, nil
}

func openEnd(dirfd int, name string, end int) (int, error) {
	mode := unix.O_RDONLY
	if end == 1 {
		mode = unix.O_WRONLY
	}
	return unix.Openat(dirfd, name, mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

// AsRelay makes a relay of a pipe whose ends do not wait.
func AsRelay(fds [2]int) (r, w *os.File) {
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // best effort
	// Not in the poller: a relay is only ever used when it is ready.
	return os.NewFile(uintptr(fds[0]), "relay"), os.NewFile(uintptr(fds[1]), "relay")
}
