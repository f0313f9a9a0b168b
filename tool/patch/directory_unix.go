//go:build unix

package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/sandbox/files"
)

const openNonblock = unix.O_NONBLOCK

// lockLimit is how long a patch waits for another one.
const lockLimit = 10 * time.Second

// lockRoot locks the directory itself, so no lock file is needed. The lock ends with this
// process.
func lockRoot(ctx context.Context, root *os.Root, name string) (io.Closer, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("cannot lock the workspace %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	for delay := time.Millisecond; ; delay = min(2*delay, 50*time.Millisecond) {
		err := filelock.TryLock(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, filelock.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("cannot lock the workspace %s: %w", name, err), f.Close())
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, errors.Join(corral.Errorf(corral.ErrUnavailable, "try again, or end what holds the lock", "another patch is being applied to the workspace %s, or a program has locked it: %w", name, ctx.Err()), f.Close())
		}
	}
}

func (s *stat) system(info fs.FileInfo, user *files.User) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	s.links = uint64(st.Nlink) //nolint:unconvert // its type depends on the system
	s.owner = owner{int(st.Uid), int(st.Gid)}
	switch {
	case os.Geteuid() != 0:
		s.ours = os.Geteuid() == s.owner.uid
	case user != nil:
		s.ours = user.UID == s.owner.uid
		s.closed, s.fixed = !s.grants(*user, 1), !s.grants(*user, 3) || info.Mode()&fs.ModeSticky != 0 && !s.ours
	}
	s.made = os.Geteuid() == s.owner.uid && s.perm&0o077 == 0
	switch setgid := info.Mode()&fs.ModeSetgid != 0; {
	case os.Geteuid() == 0:
		s.heirs = s.owner
	case setgid:
		s.heirs = owner{-1, s.owner.gid}
	}
	s.id = strconv.FormatUint(uint64(st.Dev), 10) + ":" + strconv.FormatUint(st.Ino, 10) //nolint:unconvert,gosec // as above
}

// grants reports whether a user has all rights in want (3: to change a directory, 1: to
// enter it), or could give them to itself.
func (s *stat) grants(user files.User, want fs.FileMode) bool {
	switch {
	case s.owner.uid == user.UID:
		return true
	case s.owner.gid == user.GID:
		want <<= 3
	}
	return s.perm&want == want
}

// setOwnerAndMode sets owner and mode of a new file or directory by its handle: another
// file may have its name by now.
func setOwnerAndMode(f *os.File, perm fs.FileMode, o owner) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if o.uid == int(st.Uid) {
			o.uid = -1
		}
		if o.gid == int(st.Gid) {
			o.gid = -1
		}
	}
	if o != anyOwner {
		if err := f.Chown(o.uid, o.gid); err != nil {
			return err
		}
	}
	if perm == byUmask {
		return nil
	}
	return f.Chmod(perm)
}

func syncDir(f *os.File) error { return f.Sync() }
