package diskimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Check says why this program can have no images, as far as that can be told
// without making one. Nil: it can.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount what limits it")
	}
	if _, err := os.Stat(loopControl); err != nil {
		return fmt.Errorf("this machine has no loop devices: %w", err)
	}
	_, err := mkfs()
	return err
}

const program = "mkfs.ext4"

// mkfs finds the program, which PATH often does not.
func mkfs() (string, error) {
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		file := filepath.Join(dir, program)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, nil
		}
	}
	file, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("there is no program %s (Debian: apt-get install e2fsprogs): %w", program, err)
	}
	return file, nil
}

// Partial is where an image is while it is made.
func Partial(file string) string { return file + ".new" }

// Make makes an image that is not there, whole or not at all; what an earlier
// call left that was killed is replaced. One call at a time makes a file.
func Make(ctx context.Context, file string, size int64) (err error) {
	tool, err := mkfs()
	if err != nil {
		return err
	}
	tmp := Partial(file)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(tmp))
			return
		}
		err = os.Rename(tmp, file)
	}()
	if err := f.Truncate(size); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, tool, "-q", "-F", "-b", strconv.Itoa(blockSize), "-I", "256",
		"-N", strconv.FormatInt(size/BytesPerFile, 10), "-m", "0", "-O", "^resize_inode", "-E", "lazy_journal_init=1", tmp)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(said.Bytes()))
	}
	return f.Sync()
}

// firstFile is the number that ext4 gives to the first file made in it, which is
// its lost+found.
const firstFile = 11

// Mount mounts an image on a directory, if nothing is mounted there. A new one has an
// empty directory of root's that no other user can read.
func Mount(file, dir string) (err error) {
	mounted, err := IsMounted(dir)
	if err != nil {
		return err
	}
	if mounted {
		return tidy(dir)
	}
	// An engine that does not see the mount would have the directory below: that
	// is no one's to write to.
	if err := errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o700)); err != nil {
		return err
	}
	device, err := attach(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }() // the mount has it by then, or nothing
	if err := unix.Mount(device.Name(), dir, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "discard"); err != nil {
		return fmt.Errorf("cannot mount %s: %w", file, err)
	}
	return tidy(dir)
}

// tidy empties the root of a new file system of what its tools put there. It is not
// a new one any more once that is gone.
func tidy(dir string) error {
	found := filepath.Join(dir, "lost+found")
	var st unix.Stat_t
	err := unix.Lstat(found, &st)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (st.Ino != firstFile || st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	if err := os.Remove(found); err != nil && !errors.Is(err, unix.ENOTEMPTY) { // then it is in use
		return err
	}
	return nil
}

// IsMounted reports whether something is mounted on a directory. If that is not
// there, nothing is.
func IsMounted(dir string) (bool, error) {
	var st, above unix.Stat_t
	if err := unix.Lstat(dir, &st); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("cannot look at %s: %w", dir, err)
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, fmt.Errorf("cannot look at %s: %w", filepath.Dir(dir), err)
	}
	return st.Dev != above.Dev, nil
}

// Unmount has nothing be mounted on a directory. What is open there can be used
// until it is closed.
func Unmount(dir string) error {
	for {
		mounted, err := IsMounted(dir)
		if err != nil || !mounted {
			return err
		}
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		switch {
		case errors.Is(err, unix.EINVAL): // another program was faster
			return nil
		case err != nil:
			return fmt.Errorf("cannot unmount %s: %w", dir, err)
		}
	}
}
