//go:build linux

package warden

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/landlock"
	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv/lookup"
)

// EnvID is the variable by which descendants of a process are found; its value
// is the process's ID.
const EnvID = "CORRAL_PROCESS"

// started answers wire.Start.
func (c *client) started(m *wire.Message, p *proc, f *fail) error {
	if f != nil {
		return c.answer(m, f)
	}
	return c.reply(m, p)
}

// reply sends Started, with what a new owner needs.
func (c *client) reply(m *wire.Message, p *proc) error {
	s := c.s
	s.mu.Lock()
	started := p.item()
	started.Type, started.Req = wire.Started, m.Req
	var fds []int
	switch {
	case p.streams != nil:
		started.Offset = uint64(p.streams.accepted())
	case m.Type == wire.Start && p.master >= 0 && !c.terminalFirst:
		fds = []int{p.master}
	case m.Type == wire.Attach:
		if !c.oneWay {
			fds = p.kept()
		}
		if p.stdin < 0 && p.master < 0 {
			started.Flags &^= wire.FlagStdin
		}
	}
	// Sent under the lock: what is kept must not be closed meanwhile, and Exited
	// must not overtake. Who is an owner only from here on hears of the end once:
	// a second Exited could be taken for that of the next command with this ID.
	p.owner = c
	err := c.conn.Send(started, fds...)
	if errors.Is(err, unix.ETOOMANYREFS) {
		s.mu.Unlock()
		return c.answer(m, notPassed("process "+p.id))
	}
	if err == nil && p.streams != nil {
		p.streams.attach(c.conn, int64(m.Offset))
	}
	if err == nil && p.exited != nil {
		err = c.conn.Send(p.exited)
	}
	s.mu.Unlock()
	return err
}

// notPassed is the answer where the kernel passes no descriptor: it counts, for
// each user, those that were sent and not received yet, and a command of the
// same user can send as many as there may be. The connection is as good as it was.
func notPassed(what string) *fail {
	return failf(wire.CodeUnavailable, "cannot pass the descriptors of %s: the commands of this user have sent too many that were not received: %v", what, unix.ETOOMANYREFS)
}

// passTerminal sends the terminal of a process that is about to be made.
func (c *client) passTerminal(m *wire.Message, master int) *fail {
	if master < 0 || !c.terminalFirst {
		return nil
	}
	err := c.conn.Send(&wire.Message{Type: wire.Terminal, Req: m.Req, ID: m.ID}, master)
	switch {
	case errors.Is(err, unix.ETOOMANYREFS):
		return notPassed("process " + m.ID)
	case err != nil: // the connection is broken, and what the process says would not be read
		return failf(wire.CodeUnavailable, "cannot pass the terminal of process %s: %v", m.ID, err)
	}
	return nil
}

func (c *client) attach(m *wire.Message) error {
	s := c.s
	s.mu.Lock()
	p := s.procs[m.ID]
	s.mu.Unlock()
	if p == nil {
		return c.answer(m, failf(wire.CodeNotFound, "no process %s", m.ID))
	}
	if !c.oneWay && (p.streams != nil) == c.conn.PassesFiles() {
		return c.answer(m, failf(wire.CodeUnsupported, "process %s was started over another kind of connection", m.ID))
	}
	return c.reply(m, p)
}

// checkStart says what of a Start cannot be.
func checkStart(m *wire.Message) *fail {
	switch {
	case m.ID == "" || len(m.ID) > 64:
		return failf(wire.CodeInvalid, "an id has 1 to 64 characters")
	case len(m.Args) == 0:
		return failf(wire.CodeInvalid, "no program is given")
	case m.Timeout > math.MaxInt64:
		return failf(wire.CodeInvalid, "the time-out of %d ns is out of range", m.Timeout)
	case len(m.Tag) > wire.MaxTag:
		return failf(wire.CodeInvalid, "the tag has %d bytes, more than %d", len(m.Tag), wire.MaxTag)
	}
	return nil
}

// start makes a process that has been claimed.
func (s *Supervisor) start(c *client, m *wire.Message, fds []int) (*proc, *fail) {
	defer s.made(m.ID)
	stdio, f := s.newStdio(c, m, fds)
	if f != nil {
		return nil, f
	}
	p := &proc{
		id: m.ID, tag: m.Tag, flags: m.Flags & (wire.FlagStdin | wire.FlagTTY | wire.FlagMerge),
		timeout: time.Duration(m.Timeout), grace: time.Duration(m.Grace), slot: noSlot,
		master: stdio.master, stdin: stdio.stdin, outputs: stdio.outputs, relay: stdio.relay, streams: stdio.streams,
		writers: stdio.writers(), oneWay: c.oneWay,
	}
	if f := p.confine(m); f != nil {
		stdio.closeChild(s.devnull)
		p.release(false)
		return nil, f
	}
	if f := c.passTerminal(m, stdio.master); f != nil {
		stdio.closeChild(s.devnull)
		p.release(false)
		return nil, f
	}
	if err := s.execute(p, m, stdio); err != nil {
		f := checkDir(m.Dir)
		if f == nil {
			f = s.notExecuted(p, m.Args[0], err, stdio)
		}
		if f != nil {
			stdio.closeChild(s.devnull)
			p.release(false)
			s.removeCgroup(p)
			return nil, f
		}
	}
	stdio.closeChild(s.devnull)
	if p.streams != nil {
		p.streams.run()
	}
	return p, nil
}

// execute makes the process. What is wrong with the program is only looked for
// when it could not be executed; what is wrong with the directory is up to the
// caller.
func (s *Supervisor) execute(p *proc, m *wire.Message, stdio *stdio) error {
	name := m.Args[0]
	path, env := environment(m)
	env = s.spareProfile(p, m, env)
	if strings.HasPrefix(name, "/") {
		err := s.fork(p, name, m, env, stdio)
		if err == nil {
			return nil
		}
		if _, lerr := lookup.Program(name, path, m.Dir); lerr != nil {
			return lerr
		}
		return err
	}
	file, err := lookup.Program(name, path, m.Dir)
	if err != nil {
		return err
	}
	return s.fork(p, file, m, env, stdio)
}

func checkDir(dir string) *fail {
	info, err := os.Stat(dir)
	var perr *os.PathError
	switch {
	case err == nil && !info.IsDir():
		return failf(wire.CodeDir, "%s is not a directory", dir)
	case errors.As(err, &perr):
		return failf(wire.CodeDir, "%s: %v", dir, perr.Err)
	case err != nil:
		return failf(wire.CodeDir, "%s: %v", dir, err)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS); err != nil {
		return failf(wire.CodeDir, "%s: %v", dir, err)
	}
	return nil
}

// environment is the command's, and its PATH.
func environment(m *wire.Message) (path string, env []string) {
	env = make([]string, 0, len(m.Env)+1)
	for _, e := range m.Env {
		if strings.HasPrefix(e, EnvID+"=") {
			continue
		}
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
		env = append(env, e)
	}
	return path, append(env, EnvID+"="+m.ID)
}

// fork makes the process, and registers it before the reaper can take it for an
// orphan.
func (s *Supervisor) fork(p *proc, file string, m *wire.Message, env []string, stdio *stdio) error {
	attr := spawn.Attr{Dir: m.Dir, Env: env, Files: stdio.child, Terminal: p.flags&wire.FlagTTY != 0}
	if fd := s.makeCgroup(p); fd >= 0 {
		defer unix.Close(fd)
		attr.Cgroup = fd
	}
	s.forking.RLock()
	defer s.forking.RUnlock()
	p.started, p.ticks = now(), ticks()
	if p.mark = s.newMark(); p.mark != 0 {
		attr.RealTime = &unix.Rlimit{Cur: p.mark, Max: s.hardMark}
	}
	p.oomBefore, p.oomCounted = s.oom.read()
	s.offer()
	p.ledger = s.ledger
	if s.opts.Ledger != "" {
		p.slot = s.ledger.note(s.entryOf(p), noSlot)
	}
	pid, err := s.spawn(p, file, m.Args, attr)
	s.offered()
	if err != nil {
		p.unnote()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.pid = pid
	p.noteWriters()
	if p.slot != noSlot {
		s.ledger.note(s.entryOf(p), p.slot)
	}
	s.procs[p.id] = p
	s.byPID[pid] = p
	s.setReadiest(p, time.Millisecond)
	s.ending = false
	if p.timeout > 0 {
		p.timer = time.AfterFunc(p.timeout, func() { s.expire(p) })
	}
	if s.opts.ReapAll {
		s.forks++
		s.spawned.Signal()
	} else {
		s.wg.Add(1)
		go s.reapOne(p)
	}
	return nil
}

// maxReason bounds, in bytes, why a program could not be executed: the smallest
// pipe holds it. A program's name can be longer.
const maxReason = 4000

// notExecuted gives a process that could not be executed the exit code that a
// shell would give it, and the reason on standard error. What is no fault of
// the program's is a failure instead.
func (s *Supervisor) notExecuted(p *proc, name string, err error, stdio *stdio) *fail {
	code := uint64(126)
	var lerr *lookup.Error
	switch {
	case errors.As(err, &lerr):
		code = uint64(lookup.ExitCode(err))
	case errors.Is(err, unix.ENOENT): // the file is there: its interpreter is not
		code = 127
		err = fmt.Errorf("%s: the interpreter of the program does not exist", name)
	case errors.As(err, new(*landlock.Unenforced)):
		return failf(wire.CodeUnsupported, "%v", err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return failf(wire.CodeUnavailable, "cannot make a process for %s: %v", name, err)
	default:
		err = fmt.Errorf("%s: %w", name, err)
	}
	if p.started == 0 {
		p.started = now()
	}
	text := "corral: " + err.Error()
	text = text[:min(len(text), maxReason)]
	if p.flags&wire.FlagTTY != 0 {
		text += "\r"
	}
	// A pipe that was just made, and a terminal, hold a line that is not long.
	_, _ = unix.Write(stdio.child[2], []byte(text+"\n"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs[p.id] = p
	s.finish(p, &wire.Message{ExitCode: code, Reason: wire.ReasonExited})
	return nil
}

// finish records how a process ended and tells its owner. mu is held.
func (s *Supervisor) finish(p *proc, how *wire.Message) {
	how.Type, how.ID, how.StartedAt = wire.Exited, p.id, p.started
	how.EndedAt = max(now(), p.started)
	how.Refused = p.jail.Refused()
	p.exited = how
	p.unnote()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.streams != nil {
		p.streams.exited()
	}
	p.closeWriters()
	s.ended = append(s.ended, p)
	s.noteIdle()
	if len(s.ended) > maxEnded {
		s.since = now() // what is not known here may have run, as if under another
		s.logf("dropping the exit status of %s: no gateway asked for it", s.ended[0].id)
		s.drop(s.ended[0])
	}
	if p.owner != nil { // else Started is still to be sent, and sends it
		_ = p.owner.conn.Send(how) // a broken connection: it is kept
	}
}
