package wardenexec

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// carrierAdopted takes the answer to Attach, with its descriptors in the order of
// warden.proc.kept.
func (p *process) carrierAdopted(c *client, a answer) error {
	if m, ok := p.carry().(*messages); ok {
		m.adopted(a)
		p.replayExit(a)
		m.begin()
		return nil
	}
	pi := newPipes(p, a.m.Flags)
	if err := pi.adopt(a.m.Flags, a.fds); err != nil {
		pi.stop()
		return err
	}
	p.setCarrier(pi)
	if !p.running() { // the executor was closed, and did not know of it
		pi.stop()
		return errClosed
	}
	if err := pi.run(); err != nil {
		pi.stop()
		return err
	}
	p.replayExit(a)
	return nil
}

func (pi *pipes) adopt(flags uint64, fds []int) (err error) {
	next := func() int {
		if len(fds) == 0 {
			return -1
		}
		fd := fds[0]
		fds = fds[1:]
		return fd
	}
	defer func() { closeFDs(fds) }()
	pipe := func(end int) (int, error) {
		fd := next()
		if fd < 0 {
			return -1, errors.New("the warden kept too few descriptors")
		}
		defer unix.Close(fd)
		if err := checkPipe(fd); err != nil {
			return -1, err
		}
		return ownEnd(fd, end)
	}
	switch {
	case flags&wire.FlagAdopted != 0: // its warden was killed, and kept nothing
	case pi.tty:
		fd := next()
		if fd < 0 {
			return errors.New("the warden kept no terminal")
		}
		if err := pi.setTerminal(fd); err != nil {
			return err
		}
	default:
		if flags&wire.FlagStdin != 0 {
			fd, err := pipe(1)
			if err != nil {
				return err
			}
			pi.input = os.NewFile(uintptr(fd), "pipe")
		}
		streams := []corral.Stream{corral.Stdout, corral.Stderr}
		if flags&wire.FlagMerge != 0 {
			streams = streams[:1]
		}
		for _, s := range streams {
			fd, err := pipe(0)
			if err != nil {
				return err
			}
			pi.addOutput(&descriptor{fd: fd}, s)
		}
	}
	if flags&wire.FlagRelay == 0 {
		return nil
	}
	for i := range pi.relay {
		fd, err := pipe(i)
		if err != nil {
			return err
		}
		pi.relay[i] = os.NewFile(uintptr(fd), "relay")
	}
	r, w := pi.relay[0], pi.relay[1]
	pi.relay = [2]*os.File{}
	return pi.p.log.AdoptRelay(r, w)
}

// ownEnd opens an end of a pipe once more, so that it is non-blocking for us
// whatever those who share the other description do to it. Reading needs no such
// care, since it is done by splice, which says itself that it must not wait.
func ownEnd(fd, end int) (int, error) {
	mode := unix.O_RDONLY
	if end == 1 {
		mode = unix.O_WRONLY
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// checkTerminal makes sure that a descriptor from a warden is the master of a
// Unix 98 terminal, and not some file on which reading blocks for ever.
func checkTerminal(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	// Major 5, minor 2: /dev/ptmx (Documentation/admin-guide/devices.txt).
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 5 || unix.Minor(st.Rdev) != 2 {
		return corral.Errorf(corral.ErrUnavailable, "remove the sandbox; its warden is not to be trusted", "the warden sent something that is not a terminal")
	}
	return nil
}

// checkPipe makes sure that a descriptor from a warden is an anonymous pipe.
func checkPipe(fd int) error {
	var st, own unix.Stat_t
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer closeFDs(p[:])
	if err := unix.Fstat(p[0], &own); err != nil {
		return err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || st.Dev != own.Dev {
		return corral.Errorf(corral.ErrUnavailable, "remove the sandbox; its warden is not to be trusted", "the warden sent something that is not a pipe")
	}
	return nil
}
