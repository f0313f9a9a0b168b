package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wardenexec"
	"github.com/corral-exec/corral/internal/wire"
)

// acceptWarden waits for the container's init to dial.
func (e *Executor) acceptWarden(ctx context.Context, c Container) (wire.Conn, error) {
	l, err := wardenexec.Listen(e.runDir)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Accept(ctx, func(cred *unix.Ucred) error {
		if int(cred.Pid) != c.PID {
			return fmt.Errorf("process %d dialled, the sandbox's warden is %d", cred.Pid, c.PID)
		}
		return nil
	})
}

// exclusive makes a connection of an attached stream while nobody else speaks
// on it: two writers would cut each other's messages.
func (e *Executor) exclusive(ctx context.Context, stream io.ReadWriteCloser) (wire.Conn, error) {
	f, err := lockFile(ctx, filepath.Join(e.stateDir, "stream.lock"))
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
	return errors.Join(u.ReadWriteCloser.Close(), ignoreClosed(u.lock.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// lock makes changes to the container one at a time, among all gateways.
func (e *Executor) lock(ctx context.Context) (unlock func(), err error) {
	f, err := lockFile(ctx, filepath.Join(e.stateDir, "container.lock"))
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// lockFile locks a file, waiting as long as ctx lets it.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the sandbox: %w", err)
	}
	for delay := time.Millisecond; ; delay = min(2*delay, 50*time.Millisecond) {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			f.Close()
			return nil, corral.Errorf(corral.ErrUnavailable, "wait for it, or end it", "another program uses the sandbox (%s is locked): %w", name, ctx.Err())
		}
	}
}

// lockOwner says that an ephemeral state directory is in use, until this
// process ends, however it does.
func lockOwner(dir string, ephemeral bool) (*os.File, error) {
	if !ephemeral {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot mark the state directory as in use: %w", err)
	}
	// Shared: several sandboxes can have one state directory.
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot mark the state directory %s as in use: %w", dir, err)
	}
	return f, nil
}

func (e *Executor) unlockOwner() {
	if e.owner != nil {
		e.owner.Close()
		e.owner = nil
	}
}

// ownerLives tells whether anybody uses an ephemeral state directory.
func ownerLives(dir string) bool {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

// owner is who commands run as when nobody is named.
func (c *Config) owner() string {
	if os.Geteuid() != 0 {
		return strconv.Itoa(os.Geteuid()) + ":" + strconv.Itoa(os.Getegid())
	}
	if c.Workspace != "" {
		if info, err := os.Stat(c.Workspace); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
				return strconv.Itoa(int(st.Uid)) + ":" + strconv.Itoa(int(st.Gid))
			}
		}
	}
	return nobody
}

func ownerOf(file string) (uid int, ok bool) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
