//go:build linux

package warden

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// reapAll reaps every child, also those that were made by a command and
// outlived it. It ends with the process.
func (s *Supervisor) reapAll() {
	for {
		s.mu.Lock()
		forks := s.forks
		s.mu.Unlock()
		pid, err := spawn.Ended(unix.P_ALL, 0, 0)
		switch err {
		case nil:
			s.reap(pid)
		case unix.EINTR:
		default: // ECHILD: there is none until the next fork
			s.mu.Lock()
			for s.forks == forks {
				s.spawned.Wait()
			}
			s.mu.Unlock()
		}
	}
}

// reapOne waits for one child, in a program that has others.
func (s *Supervisor) reapOne(p *proc) {
	defer s.wg.Done()
	_, err := spawn.Ended(unix.P_PID, p.pid, 0)
	for err == unix.EINTR {
		_, err = spawn.Ended(unix.P_PID, p.pid, 0)
	}
	if err == nil {
		err = s.reap(p.pid)
	}
	if err != nil {
		// Another part of this program reaped it: how it ended cannot be known,
		// and Exited is never sent.
		s.logf("command %s was reaped by another part of the program: %v", p.id, err)
		s.take(p.pid)
	}
}

// reap reaps a child that has ended, and tells of its end if it is a command's
// own process. That its number may be another's from now on is noted before it
// may be.
func (s *Supervisor) reap(pid int) error {
	p := s.take(pid)
	if p == nil {
		// Perhaps it ended before fork could register it.
		s.forking.Lock()
		//lint:ignore SA2001 waiting for a fork to be registered is the point
		s.forking.Unlock()
		p = s.take(pid)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, 0, nil)
	for err == unix.EINTR {
		_, err = syscall.Wait4(pid, &status, 0, nil)
	}
	if err == nil && p != nil {
		s.reaped(p, status)
	}
	return err
}

func (s *Supervisor) reaped(p *proc, status syscall.WaitStatus) {
	how := &wire.Message{ExitCode: uint64(status.ExitStatus()), Reason: wire.ReasonExited}
	if status.Signaled() {
		how.ExitCode, how.Signal = 0, uint64(status.Signal())
	}
	if s.killedForMemory(p, status) {
		how.Reason = wire.ReasonOOM
	}
	s.mu.Lock()
	kept := !p.timedOut // what it left; else all of it is about to be killed
	s.mu.Unlock()
	var left []string
	if kept {
		left = s.orphans(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.timedOut {
		how.Args = left
		s.finish(p, how)
		return
	}
	// The command obeyed SIGTERM; its descendants have had as long.
	how.Reason = wire.ReasonTimeout
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		s.killTree(p)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.finish(p, how)
	}()
}

func (s *Supervisor) take(pid int) *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byPID[pid]
	if p != nil {
		delete(s.byPID, pid)
		p.reaped = true
		p.jail.Forget()
	}
	return p
}
