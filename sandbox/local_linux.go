package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/sandbox/engine"
)

// acceptWarden waits for the container's init to dial.
func (b *box) acceptWarden(ctx context.Context, c engine.Container) (wire.Conn, error) {
	l, err := wardenexec.Listen(filepath.Join(b.dir, boxRun))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if engine.IsGVisor(b.Runtime) {
		return l.AcceptSecret(ctx, func(cred *unix.Ucred) error { return checkGofer(int(cred.Pid), c) }, filepath.Join(b.dir, boxSecret))
	}
	conn, err := l.Accept(ctx, func(cred *unix.Ucred) error {
		if int(cred.Pid) != c.PID {
			return fmt.Errorf("process %d dialled, the sandbox's warden is %d", cred.Pid, c.PID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// checkGofer makes sure that a process on this machine is one of gVisor's own of a
// container: what runs inside has none here. GVisor dials by its gofer, which opens
// files for it too.
func checkGofer(pid int, c engine.Container) error {
	theirs, err := cgroupOf(pid)
	if err != nil {
		return err
	}
	its, err := cgroupOf(c.PID)
	if err != nil {
		return err
	}
	if theirs != its || !strings.Contains(theirs, c.ID) {
		return fmt.Errorf("process %d dialled, which is not one of the sandbox's", pid)
	}
	return nil
}

func cgroupOf(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", fmt.Errorf("cannot see which container process %d is of: %w", pid, err)
	}
	return string(b), nil
}

// exclusive makes a connection of an attached stream while it has no other user:
// two writers would cut each other's messages.
func (b *box) exclusive(ctx context.Context, stream io.ReadWriteCloser) (wire.Conn, error) {
	f, err := lockFile(ctx, filepath.Join(b.dir, "stream.lock"))
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return strictFrames(unlocking{stream, f}), nil
}

type unlocking struct {
	io.ReadWriteCloser
	lock *os.File
}

func (u unlocking) Close() error {
	defer closeLock(u.lock)
	return u.ReadWriteCloser.Close()
}

func locked(ctx context.Context, name string) (unlock func(), err error) {
	f, err := lockFile(ctx, name)
	return func() { closeLock(f) }, err
}

// lockBox says that a box is in use, until the file is closed or the process
// ends. errNoBox: it is gone, or is being removed.
func lockBox(dir string) (*os.File, error) {
	name := filepath.Join(dir, boxLock)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoBox
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the sandbox's container: %w", err)
	}
	err = setLock(f, unix.F_RDLCK)
	if err == nil {
		var ours, now os.FileInfo // it may have been removed before we had the lock
		if ours, err = f.Stat(); err == nil {
			if now, err = os.Stat(name); err == nil && !os.SameFile(ours, now) {
				err = errNoBox
			}
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EAGAIN):
		err = errAlone
	case errors.Is(err, os.ErrNotExist):
		err = errNoBox
	}
	f.Close()
	return nil, err
}

// alone makes this program the only user of the box, and keeps others out; false
// if another one uses it.
func (b *box) alone() (bool, error) {
	err := setLock(b.lock, unix.F_WRLCK)
	if errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	return err == nil, err
}

// share undoes alone.
func (b *box) share() error { return setLock(b.lock, unix.F_RDLCK) }

// setLock locks a file if no lock on it is in the way. The lock belongs to the open
// file: it goes when that is closed or the process ends.
func setLock(f *os.File, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
}

// lockFile locks a file, waiting as long as ctx lets it.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := filelock.Open(ctx, name)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, corral.Errorf(corral.ErrUnavailable, "wait for it, or end it", "another program uses the sandbox: %w", err)
	}
	return f, err
}
