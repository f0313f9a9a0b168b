package wardenexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// A Listener waits for a warden to dial a socket in a directory that it
// watches. The socket is there until Close.
type Listener struct {
	f     *os.File
	dirfd int
	name  string
}

// Listen makes a socket in dir, which need not be short. All who can reach
// the directory can dial it; Accept tells wardens from others.
func Listen(dir string) (*Listener, error) {
	SweepSockets(dir)
	dirfd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen in %s: %w", dir, err)
	}
	l := &Listener{dirfd: dirfd, name: warden.SocketName(corral.NewID())}
	if err := l.listen(); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot listen in %s: %w", dir, err)
	}
	return l, nil
}

func (l *Listener) listen() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	l.f = os.NewFile(uintptr(fd), "warden listener")
	tmp := "." + l.name
	path := fmt.Sprintf("/proc/self/fd/%d/%s", l.dirfd, tmp)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	// The warden may run as another user; who dials is checked by Accept.
	err = unix.Chmod(path, 0o666)
	if err == nil {
		err = unix.Listen(fd, 16)
	}
	if err == nil {
		err = unix.Renameat(l.dirfd, tmp, l.dirfd, l.name)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(l.dirfd, tmp, 0))
	}
	return nil
}

// Accept returns the first connection that check lets pass; others are closed. If
// ctx ends before one comes, the next Accept may return it.
func (l *Listener) Accept(ctx context.Context, check func(*unix.Ucred) error) (*wire.Packets, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = l.f.SetReadDeadline(time.Now()) // closed: the accept fails
	})
	defer func() {
		if !stop() {
			<-cut                                // or the next Accept had the deadline
			_ = l.f.SetReadDeadline(time.Time{}) // closed: the next Accept fails
		}
	}()
	rc, err := l.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var refused error
	for {
		fd := -1
		var aerr error
		err := rc.Read(func(lfd uintptr) bool {
			fd, _, aerr = unix.Accept4(int(lfd), unix.SOCK_CLOEXEC)
			return aerr != unix.EAGAIN && aerr != unix.EINTR
		})
		if fd < 0 && ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), refused)
		}
		if err = errors.Join(err, aerr); err != nil {
			return nil, fmt.Errorf("cannot accept a warden: %w", err)
		}
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			err = check(cred)
		}
		if err != nil {
			refused = err
			unix.Close(fd)
			continue
		}
		return wire.NewPackets(fd)
	}
}

// Close ends listening, and removes the socket. Accepted connections stay.
func (l *Listener) Close() {
	if l.f != nil {
		l.f.Close()
		_ = unix.Unlinkat(l.dirfd, l.name, 0) // or it never got its name
	}
	unix.Close(l.dirfd)
}

// SweepSockets removes the sockets of gateways that died.
func SweepSockets(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !warden.IsSocketName(e.Name()) {
			continue
		}
		conn, err := warden.Dial(dir, e.Name())
		if err == nil {
			conn.Close()
			continue
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			_ = os.Remove(dir + "/" + e.Name()) // another sweep may be faster
		}
	}
}

// WardenPID is the process ID of the host warden that holds the lock in dir, 0
// if there is none.
func WardenPID(dir string) (int, error) {
	f, err := os.Open(dir + "/" + warden.LockName)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("cannot look at %s: %w", f.Name(), err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0, nil
	}
	pid := 0
	if _, err := fmt.Fscan(f, &pid); err != nil {
		return -1, nil // locked, and about to write its number
	}
	return pid, nil
}
