package boundary

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// A Pin holds on to a directory or file that was checked, so that it can be
// told whether a path still leads there. It is for one goroutine.
type Pin struct {
	path string
	fd   int
	id   identity
}

// identity is what a file is, whatever leads to it.
type identity struct {
	dev, ino uint64
	mode     uint32 // its kind
}

// Hold opens a path without symbolic links in it, which was resolved and
// checked before: a link that was put there since is an error.
func Hold(path string) (*Pin, error) {
	fd, err := open(path)
	if err != nil {
		return nil, err
	}
	id, err := identify(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot look at %s: %w", path, err), unix.Close(fd))
	}
	return &Pin{path: path, fd: fd, id: id}, nil
}

func open(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.ELOOP):
			return -1, changed(path, "there is a symbolic link in it now")
		case errors.Is(err, unix.ENOENT):
			return -1, corral.Errorf(corral.ErrDir, "create it first", "cannot mount %s into a sandbox: it does not exist", path)
		default:
			return -1, corral.Errorf(corral.ErrDir, "use one that this program can open", "cannot mount %s into a sandbox: %w", path, err)
		}
	}
}

// changed is the error for a path that does not lead to what was checked.
func changed(path, how string) error {
	return corral.Errorf(corral.ErrDenied, "keep others from writing to the directory above it", "%s was changed after it had been checked, and is not mounted into a sandbox: %s", path, how)
}

func identify(fd int) (identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return identity{}, err
	}
	return identity{dev: st.Dev, ino: st.Ino, mode: st.Mode & unix.S_IFMT}, nil
}

// Verify fails if the path does not lead to what is held any more.
func (p *Pin) Verify() error {
	fd, err := open(p.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	id, err := identify(fd)
	if err != nil {
		return fmt.Errorf("cannot look at %s: %w", p.path, err)
	}
	if id != p.id {
		return changed(p.path, "another file is there now")
	}
	return nil
}

// VerifyIn fails if a process, the first of a container, finds something else
// at target than what is held. Where this program cannot look into the process's
// files (another user's, or those of a runtime with a kernel of its own), it is
// Verify.
func (p *Pin) VerifyIn(pid int, target string) error {
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return p.Verify() // EACCES, or it ended: then it is of no consequence
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, strings.TrimPrefix(filepath.Clean(target), "/"), &how)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT):
		return p.Verify()
	case err != nil:
		return fmt.Errorf("cannot look at %s in the sandbox: %w", target, &os.PathError{Op: "open", Path: target, Err: err})
	}
	defer unix.Close(fd)
	id, err := identify(fd)
	if err != nil {
		return fmt.Errorf("cannot look at %s in the sandbox: %w", target, err)
	}
	if id != p.id {
		return changed(p.path, "another file was mounted at "+target)
	}
	return nil
}

// FD is what is held, opened with O_PATH. It is the Pin's.
func (p *Pin) FD() int { return p.fd }

// Close lets go.
func (p *Pin) Close() error { return unix.Close(p.fd) }

// kernelFS are file systems that are views of the kernel.
var kernelFS = map[string]bool{
	"proc": true, "sysfs": true, "devtmpfs": true, "devpts": true, "cgroup": true, "cgroup2": true, "securityfs": true, "debugfs": true,
	"tracefs": true, "bpf": true, "configfs": true, "pstore": true, "efivarfs": true, "binfmt_misc": true, "nsfs": true, "selinuxfs": true,
}

// systemMountBelow is where a view of the kernel is mounted below a directory:
// what a recursive bind mount takes along. Empty: nowhere.
func systemMountBelow(dir string) string {
	f, err := os.Open("/proc/thread-self/mountinfo") // /proc/self is the first thread, which may be in a namespace of a container
	if err != nil {
		return ""
	}
	defer f.Close()
	return kernelMountBelow(f, dir)
}

// maxMountLine bounds a line of a table of mounts, in bytes. That of an overlay of many
// directories has them all.
const maxMountLine = 16 << 20

// kernelMountBelow is what a table of mounts says of that.
func kernelMountBelow(r io.Reader, dir string) string {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMountLine)
	for n := 0; n < maxLines && lines.Scan(); n++ {
		line := lines.Text()
		left, right, ok := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		typ, _, _ := strings.Cut(right, " ")
		if !ok || len(fields) < 5 || !kernelFS[typ] {
			continue
		}
		if at := unescape(fields[4]); at != dir && under(at, dir) {
			return at
		}
	}
	return ""
}

// unescape undoes how the kernel writes blanks in a table.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
