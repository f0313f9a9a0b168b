package wardenexec

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// carrierAdopted takes the answer to Attach, with its descriptors in the order of
// warden.proc.kept.
func (p *process) carrierAdopted(c *client, a answer) error {
	if m, ok := p.carry().(*messages); ok && !(c.oneWay && a.m.Flags&wire.FlagTTY == 0) {
		m.adopted(a)
		p.replayExit(a)
		m.begin()
		return nil
	}
	pi := newPipes(p, a.m.Flags)
	ends := handedBack(&a.fds)
	if c.oneWay {
		ends = pi.named
		p.pipesNamed.Store(true)
	}
	err := pi.adopt(a.m.Flags, ends, &a.fds)
	closeFDs(a.fds)
	if err != nil {
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

// handedBack opens ends of pipes that a warden has kept, in their order.
func handedBack(fds *[]int) func(role string, end int) (int, error) {
	return func(_ string, end int) (int, error) {
		fd := next(fds)
		if fd < 0 {
			return -1, errors.New("the warden kept too few descriptors")
		}
		defer unix.Close(fd)
		if err := checkPipe(fd); err != nil {
			return -1, err
		}
		return ownEnd(fd, end)
	}
}

// next takes the first of some descriptors; -1 if there is none.
func next(fds *[]int) int {
	if len(*fds) == 0 {
		return -1
	}
	fd := (*fds)[0]
	*fds = (*fds)[1:]
	return fd
}

// adopt takes over what a process was given by an earlier life. open opens an end of
// one of its pipes; a terminal is the first of fds.
func (pi *pipes) adopt(flags uint64, open func(role string, end int) (int, error), fds *[]int) error {
	switch {
	case flags&wire.FlagAdopted != 0: // its warden was killed, and kept nothing
	case pi.tty:
		fd := next(fds)
		if fd < 0 {
			return errors.New("the warden kept no terminal")
		}
		if err := pi.setTerminal(fd); err != nil {
			return err
		}
	default:
		if flags&wire.FlagStdin != 0 {
			fd, err := open(outlog.PipeStdin, 1)
			if err != nil {
				return err
			}
			pi.input = os.NewFile(uintptr(fd), "pipe")
		}
		for _, o := range outputs(flags) {
			fd, err := open(o.role, 0)
			if err != nil {
				return err
			}
			pi.addOutput(&descriptor{fd: fd}, o.stream)
		}
	}
	if flags&wire.FlagRelay == 0 {
		return nil
	}
	for i := range pi.relay {
		fd, err := open(outlog.PipeRelay, i)
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
