//go:build unix

package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/state/filelock"
)

const lockPoll = 100 * time.Millisecond

// lock waits until no other build of this user runs in dir. It calls waiting
// once if it has to wait. The file is gone after the last unlock; the kernel
// lets go of the lock of a process that was killed.
func lock(ctx context.Context, dir string, waiting func()) (unlock func() error, err error) {
	dir = cmp.Or(dir, os.TempDir())
	path := filepath.Join(dir, "corral-images-"+strconv.Itoa(os.Geteuid())+".lock")
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; {
		f, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if f != nil {
			return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tryLock returns nil if another has the lock. In a directory for all users,
// such as /tmp, the name may be taken by a link or a file of
// another user, who could then hold all builds up.
func tryLock(path string) (_ *os.File, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	held := false
	defer func() {
		if !held {
			err = errors.Join(err, f.Close())
		}
	}()
	var mine, there unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &mine); err != nil {
		return nil, err
	}
	if int(mine.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d", mine.Uid)
	}
	err = filelock.TryLock(f)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The one before may have removed the file after it was opened here.
	err = unix.Lstat(path, &there)
	if errors.Is(err, unix.ENOENT) || err == nil && there.Ino != mine.Ino {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	held = true
	return f, nil
}
