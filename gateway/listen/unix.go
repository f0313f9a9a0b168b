// Package listen makes the listeners of a gateway: its Unix socket, the sockets that systemd
// hands in, and TLS with a certificate that may change.
package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
)

// Unix listens on a Unix socket that only this user can open. A socket
// that an earlier gateway left is replaced; one that a gateway listens on is
// ErrConflict. Closing the listener removes it.
func Unix(path string) (net.Listener, error) {
	made := len(filepath.Dir(path)) + len("/.s4294967295/s") // where bind makes it
	if over := max(len(path), made) - maxSocketPath; over > 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "use a shorter state directory", "the path %s is %d bytes too long for a socket", path, over)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "check the state directory and its disk", "cannot lock the socket %s: %w", path, err)
	}
	if err := filelock.Own(lock); err != nil {
		lock.Close()
		return nil, corral.Errorf(corral.ErrConflict, "stop the other gateway, or give this one another state directory", "another gateway listens on %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		lock.Close()
		return nil, corral.Errorf(corral.ErrUnavailable, "check the state directory and its disk", "cannot listen on %s: %w", path, err)
	}
	return &unixListener{UnixListener: l, path: path, lock: lock}, nil
}

// maxSocketPath is what fits into a sockaddr_un of Linux.
const maxSocketPath = 107

// bind makes the socket where no other user can reach it, and moves it to its place
// with its permissions set.
func bind(path string) (_ *net.UnixListener, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("there is a file that is no socket")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(private, 0o600); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// A unixListener holds its lock for as long as its socket is there.
type unixListener struct {
	*net.UnixListener
	path  string
	lock  *os.File
	once  sync.Once
	close error
}

func (l *unixListener) Close() error {
	l.once.Do(func() {
		l.close = l.UnixListener.Close()
		if err := os.Remove(l.path); !errors.Is(err, fs.ErrNotExist) {
			l.close = errors.Join(l.close, err)
		}
		l.close = errors.Join(l.close, l.lock.Close())
	})
	return l.close
}

// Addr is where clients find it, not where it was made.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Activated returns the listeners that systemd, or another program that speaks its
// protocol (LISTEN_FDS), started this one with; none if there are none.
func Activated() ([]net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("cannot use the sockets handed in by systemd: %w", err)
	}
	var listeners []net.Listener
	for i, l := range all {
		if l == nil {
			CloseAll(listeners)
			return nil, corral.Errorf(corral.ErrInvalid, "hand in stream sockets that listen", "socket %d of those handed in by systemd is none that listens", i)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// CloseAll closes listeners that were not used.
func CloseAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close() // nothing was accepted on it
	}
}
