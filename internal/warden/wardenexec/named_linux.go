package wardenexec

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
)

type output struct {
	role   string
	stream corral.Stream
}

// outputs are what a process without a terminal writes to.
func outputs(flags uint64) []output {
	list := []output{{outlog.PipeStdout, corral.Stdout}, {outlog.PipeStderr, corral.Stderr}}
	if flags&wire.FlagMerge != 0 {
		list = list[:1]
	}
	return list
}

// hasNames tells whether pipes need names: a warden that cannot hand back what it
// keeps keeps it all the same, and the next life of this program opens it by name.
func (pi *pipes) hasNames(c *client) bool {
	return c != nil && c.oneWay && !pi.p.e.opts.Ephemeral
}

// newPipe makes a pipe; its ends wait.
func (pi *pipes) newPipe(role string, c *client) (fds [2]int, err error) {
	if pi.hasNames(c) {
		pi.p.pipesNamed.Store(true)
		if fds, err = outlog.NewPipe(pi.p.e.records.root, pi.p.id, role); err == nil {
			err = errors.Join(unix.SetNonblock(fds[0], false), unix.SetNonblock(fds[1], false))
			if err != nil {
				closePipes(fds[:]...)
			}
		}
		return fds, err
	}
	err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return fds, err
}

func (pi *pipes) newRelay(c *client) (r, w *os.File, err error) {
	if !pi.hasNames(c) {
		return outlog.NewRelay()
	}
	fds, err := outlog.NewPipe(pi.p.e.records.root, pi.p.id, outlog.PipeRelay)
	if err != nil {
		return nil, nil, err
	}
	r, w = outlog.AsRelay(fds)
	return r, w, nil
}

// inputAgain opens the end of standard input once more.
func (pi *pipes) inputAgain() (own int, err error) {
	if pi.p.pipesNamed.Load() { // by its name also where no process reads it any more
		return pi.named(outlog.PipeStdin, 1)
	}
	rc, err := pi.input.SyscallConn()
	if err != nil {
		return -1, err
	}
	cerr := rc.Control(func(fd uintptr) { own, err = ownEnd(int(fd), 1) })
	return own, errors.Join(err, cerr)
}

// named opens an end of a pipe of an earlier life.
func (pi *pipes) named(role string, end int) (int, error) {
	return outlog.OpenPipe(pi.p.e.records.root, pi.p.id, role, end)
}

// removePipes removes the names of the process's pipes; those that use them go on.
func (p *process) removePipes() {
	if !p.pipesNamed.Load() {
		return
	}
	if err := outlog.RemovePipes(p.e.records.root, p.id); err != nil {
		p.e.log.Error("a pipe could not be removed", "id", p.id, "error", err)
	}
}
