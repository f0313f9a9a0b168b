//go:build e2e && linux

package escape_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// listenSeqpacket answers each connection, until stop is called.
func listenSeqpacket(path string) (stop func(), err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path)) // paths of sockets are short
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	defer dir.Close()
	short := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: short})
	if err == nil {
		err = errors.Join(os.Chmod(path, 0o666), unix.Listen(fd, 16))
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			if err != nil {
				return
			}
			_, _ = unix.Write(conn, []byte("hello")) // whoever dialled may be gone
			unix.Close(conn)
		}
	})
	return func() {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // ends Accept4
		served.Wait()
		unix.Close(fd)
		_ = os.Remove(path) // or whoever sweeps sockets was faster
	}, nil
}
