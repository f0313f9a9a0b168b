//go:build linux

package warden

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// send sends a signal to a process of a listing. If that has ended meanwhile, its
// number may be another process's, which must not be signalled: on a host it may be
// another user's program. So the number is held by a pidfd first, then the start time
// is compared with that of the listing, and then the signal goes to what is held; if
// that has ended by now, to no process.
//
// Where there are no pidfds (Linux before 5.3, gVisor, a filter that refuses
// them, no descriptor left) the start is compared right before the signal: the
// number would have to be used again within that microsecond.
func (s *Supervisor) send(t task, sig unix.Signal) {
	fd := -1
	if !s.noPidfd.Load() {
		var err error
		switch fd, err = unix.PidfdOpen(t.PID, 0); err {
		case nil:
			defer unix.Close(fd)
		case unix.ESRCH:
			return
		case unix.ENOSYS, unix.EPERM:
			s.noPidfd.Store(true)
		default: // EMFILE, ENFILE, ENOMEM: the next may get one
		}
	}
	now, ok := lookAt(strconv.Itoa(t.PID))
	if !ok || now.Started != t.Started {
		return
	}
	if fd >= 0 {
		switch err := unix.PidfdSendSignal(fd, sig, nil, 0); err {
		case unix.ENOSYS:
			s.noPidfd.Store(true)
		default:
			return // it may be root's, as what it executed is setuid
		}
	}
	_ = unix.Kill(t.PID, sig) // as above
}
