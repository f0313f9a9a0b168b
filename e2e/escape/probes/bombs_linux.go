package probes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bombLimit is what a bomb lives at most, whatever becomes of the test.
const bombLimit = 2 * time.Minute

// bomb does the parts of bombs that no shell can do. It prints when it has met a
// limit: what, and where.
func bomb(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errUsage
	}
	timer := time.AfterFunc(bombLimit, func() { os.Exit(4) })
	defer timer.Stop()
	var n int
	var err error
	switch args[0] {
	case "memory":
		err = fill(&n)
	case "fd":
		for err == nil {
			_, err = unix.Open("/dev/null", unix.O_RDONLY, 0)
			n++
		}
	case "inode":
		for err == nil {
			var fd int
			if fd, err = unix.Open(fmt.Sprintf("/tmp/inode-%d", n), unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
				err = unix.Close(fd)
			}
			n++
		}
	case "zombie":
		for err == nil {
			err = leave()
			n++
		}
	default:
		return errUsage
	}
	if _, perr := fmt.Fprintf(stdout, "%s stopped after %d: %v\n", args[0], n, err); perr != nil {
		return perr
	}
	if errors.Is(err, unix.ENOSYS) {
		return err
	}
	time.Sleep(bombLimit) // keeps what it has, until it is killed
	return nil
}

// leave makes a child that ends, and does not wait for it.
func leave() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return errnoErr(errno)
}

// fill takes memory, and uses it.
func fill(mebibytes *int) error {
	const step = 16 << 20
	for {
		b, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		*mebibytes += step >> 20
	}
}
