//go:build linux

package warden

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A gateway listens on a socket in a directory, and the warden dials every
// socket that appears there: so a container's warden needs no more than to
// read a directory that is mounted read-only, and several gateways can be
// served at once.
const (
	socketPrefix = "gw-"
	socketSuffix = ".sock"
)

// SocketName is the file name of a gateway's socket; name tells gateways apart.
// The socket must be listening when it gets this name.
func SocketName(name string) string { return socketPrefix + name + socketSuffix }

// IsSocketName tells whether a file name is one of SocketName.
func IsSocketName(file string) bool {
	return strings.HasPrefix(file, socketPrefix) && strings.HasSuffix(file, socketSuffix)
}

// How often the directory is looked at where changes in it cannot be watched for: often
// at first, and after a gateway has gone, which the next one follows soon.
const (
	lookOften  = 20 * time.Millisecond
	lookSeldom = time.Second
)

// ErrNoSockets: the sockets of the machine cannot be dialled from here.
var ErrNoSockets = errors.New("a gateway's socket cannot be dialled from here: gVisor lets a sandbox do that with the runsc flag --host-uds=open")

// ServeDir dials the sockets of a directory until ctx ends, or the directory is
// removed: then no gateway can come any more. With blind, changes in the directory
// cannot be watched for; ErrNoSockets says then that the first socket that was there
// could not be dialled at all.
func (s *Supervisor) ServeDir(ctx context.Context, dir string, blind bool) error {
	d := &dialer{s: s, dir: dir, blind: blind, served: map[string]bool{}, lost: make(chan struct{}, 1)}
	if blind {
		d.secret = make([]byte, wire.SecretSize)
		if _, err := unix.Getrandom(d.secret, 0); err != nil { // crypto/rand is large
			return fmt.Errorf("cannot make a secret: %w", err)
		}
	}
	defer d.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := make(chan struct{}, 1)
	if !blind {
		watch, err := watchDir(dir)
		if err != nil {
			s.logf("cannot watch %s for gateways, looking again and again: %v", dir, err)
			blind = true
		} else {
			defer watch.Close()
			d.wg.Go(func() { hear(watch, changes) })
		}
	}
	if blind {
		d.wg.Go(func() { d.lookAgain(ctx, changes) })
	}
	said := ""
	for {
		s.takeOverAll() // a gateway may have gathered something
		err := d.scan()
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, ErrNoSockets):
			return err
		case err != nil: // such as too many open files: what runs goes on
			if said != err.Error() {
				said = err.Error()
				s.logf("%v", err)
			}
			time.AfterFunc(lookSeldom, func() { tell(changes) })
		}
		select {
		case <-changes:
		case <-ctx.Done():
			d.closeAll()
			return nil
		}
	}
}

func tell(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}

// hear tells of changes until watch is closed.
func hear(watch *os.File, changes chan<- struct{}) {
	buf := make([]byte, 4096)
	for {
		if _, err := watch.Read(buf); err != nil {
			return
		}
		tell(changes)
	}
}

// lookAgain tells again and again that there may have been changes.
func (d *dialer) lookAgain(ctx context.Context, changes chan<- struct{}) {
	for delay := lookOften; ; delay = min(delay*5/4, lookSeldom) {
		select {
		case <-time.After(delay):
		case <-d.lost:
			delay = lookOften
		case <-ctx.Done():
			return
		}
		tell(changes)
	}
}

func watchDir(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE_SELF); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

type dialer struct {
	s     *Supervisor
	dir   string
	blind bool
	// secret tells this warden from what else dials here, where the kernel says only
	// that it is gVisor.
	secret []byte
	wg     sync.WaitGroup
	lost   chan struct{} // receives when a connection has ended; capacity 1

	mu     sync.Mutex
	served map[string]bool
	conns  []wire.Conn
	ever   bool // there was one
}

// scan dials what is not served yet. The error may be one of a single gateway.
func (d *dialer) scan() (failed error) {
	f, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("cannot look for gateways: %w", err)
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return fmt.Errorf("cannot look for gateways in %s: %w", d.dir, err)
	}
	for _, name := range names {
		if !IsSocketName(name) {
			continue
		}
		d.mu.Lock()
		known := d.served[name]
		d.mu.Unlock()
		if known {
			continue
		}
		conn, err := Dial(d.dir, name)
		if err == nil && d.blind {
			if err = conn.Send(&wire.Message{Type: wire.Identify, Tag: d.secret}); err != nil {
				conn.Close()
			}
		}
		if err != nil {
			if d.blind && !d.ever && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("%w (%w)", ErrNoSockets, err)
			}
			// A gateway that died leaves its socket behind; the next one
			// removes it.
			if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT) {
				failed = fmt.Errorf("cannot reach the gateway at %s: %w", name, err)
			}
			continue
		}
		d.mu.Lock()
		d.served[name] = true
		d.conns = append(d.conns, conn)
		d.ever = true
		d.mu.Unlock()
		d.wg.Add(1)
		go func() {
			defer d.wg.Done()
			if err := d.s.Serve(conn); err != nil {
				d.s.logf("lost the gateway at %s: %v", name, err)
			}
			d.mu.Lock()
			delete(d.served, name)
			for i, c := range d.conns {
				if c == conn {
					d.conns = append(d.conns[:i], d.conns[i+1:]...)
					break
				}
			}
			d.mu.Unlock()
			tell(d.lost)
		}()
	}
	return failed
}

func (d *dialer) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.Close()
	}
}

// dialLimit is how long a gateway that accepts nothing, as one that is stopped, may hold up
// who dials it.
const dialLimit = time.Second

// Dial connects to the socket called name in dir, however long dir's path is.
func Dial(dir, name string) (wire.Conn, error) {
	dirfd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dirfd)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	limit := unix.NsecToTimeval(int64(dialLimit))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dirfd, name)}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return wire.NewPackets(fd)
}
