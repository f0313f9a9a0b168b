//go:build linux

package warden

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A supervisor on a host can be killed. Its commands run on: the next supervisor
// reads its ledger and takes them over. It enforces what is left of their time,
// and signals reach them. They are children of another process, so how they
// end cannot be known, and nothing of their input and output is kept.

// clock is the time of the kernel that deadlines are noted in: it is the same
// for all supervisors until the machine is started again.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// entryOf is what is noted of a process.
func (s *Supervisor) entryOf(p *proc) *wire.Message {
	e := &wire.Message{
		Type: wire.Item, ID: p.id, Tag: p.tag, Flags: p.flags, PID: uint64(p.pid), StartedAt: p.started,
		EndedAt: p.ticks, // not after its start
		Offset:  p.mark, Dir: p.cgroup, Grace: uint64(p.grace), Text: s.ledger.boot,
	}
	if p.timeout > 0 {
		e.Timeout, e.Limit = uint64(p.timeout), uint64(clock()+p.timeout) // the time at which it is over
	}
	return e
}

// watchEvery is how often a process that is no child is looked at.
const watchEvery = 100 * time.Millisecond

func (s *Supervisor) takeOverAll() {
	for _, dir := range s.opts.TakeOver {
		s.takeOver(dir)
	}
}

// takeOver adopts what supervisors that are gone have noted in a directory.
func (s *Supervisor) takeOver(dir string) {
	for _, f := range orphaned(dir, true, append(s.inherited, s.ledger)...) {
		l := &ledger{logf: s.logf, boot: s.ledger.boot, f: f}
		list, damaged, err := entries(f)
		if err != nil || damaged > 0 {
			s.logf("of the commands that were noted in %s, %d entries cannot be read (%v): they run without a time-out", f.Name(), damaged, err)
		}
		killed := strings.TrimPrefix(filepath.Base(f.Name()), ledgerPrefix)
		killed, _, _ = strings.Cut(killed, "-")
		ended := 0
		l.used, l.other = len(list), true
		for slot, e := range list {
			if e.Text != l.boot || !s.adopt(l, slot, e, killed) {
				ended++
				l.clear(slot)
			}
		}
		if ended > 0 {
			s.logf("process %s, which supervised commands, was killed; %d of them have ended since, nobody knows how", killed, ended)
		}
		if len(list) == 0 {
			l.close()
			continue
		}
		s.inherited = append(s.inherited, l)
	}
}

// adopt takes over a process, if anything of it lives.
func (s *Supervisor) adopt(l *ledger, slot int64, e *wire.Message, killed string) bool {
	p := &proc{
		id: e.ID, tag: e.Tag, flags: e.Flags | wire.FlagAdopted, pid: int(e.PID), started: e.StartedAt, ticks: e.EndedAt,
		timeout: time.Duration(e.Timeout), grace: time.Duration(e.Grace), mark: e.Offset, cgroup: e.Dir,
		adopted: true, reaped: true, // its number may be another's
		ledger: l, slot: slot, master: -1, stdin: -1, relay: [2]int{-1, -1},
	}
	members := slices.DeleteFunc(s.members(p), func(t task) bool { return t.Started+1 < p.ticks })
	if len(members) == 0 {
		return false
	}
	// Its own process, if that lives; else it is over when nothing of it is left.
	own := task{}
	if i := slices.IndexFunc(members, func(t task) bool { return t.PID == p.pid }); i >= 0 {
		own = members[i]
	}
	if p.pid == 0 {
		p.pid = members[0].PID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.procs[p.id] != nil {
		return false // it was started anew
	}
	s.procs[p.id] = p
	until := "it has no time-out"
	if p.timeout > 0 {
		left := max(time.Duration(e.Limit)-clock(), 0)
		until = fmt.Sprintf("of its time %v are left", left.Round(time.Millisecond))
		p.timer = time.AfterFunc(left, func() { s.expire(p) })
	}
	s.logf("process %s, which supervised commands, was killed; command %s (process %d) runs on, and is supervised again: %s; how it ends cannot be known", killed, p.id, p.pid, until)
	s.wg.Add(1)
	go s.watch(p, own)
	return true
}

// watch waits for the end of a process that is no child.
func (s *Supervisor) watch(p *proc, own task) {
	defer s.wg.Done()
	for alive := true; alive; {
		select {
		case <-time.After(watchEvery):
		case <-s.over:
			return
		}
		if own.PID != 0 {
			t, ok := lookAt(strconv.Itoa(own.PID))
			alive = ok && t.Started == own.Started && !t.Ended()
		} else {
			alive = len(s.members(p)) > 0
		}
	}
	s.mu.Lock()
	timedOut := p.timedOut
	s.mu.Unlock()
	how := wire.WardenKilled
	if timedOut {
		s.killTree(p) // it obeyed SIGTERM; its descendants have had as long
		how += ", and the next one ended it when its time was up"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return // who comes next goes on
	}
	s.logf("command %s, which was taken over, has ended: %s", p.id, how)
	s.finish(p, &wire.Message{Reason: wire.ReasonUnknown, Text: how})
	if !s.opts.ReapAll { // it will not be asked for here
		s.drop(p)
	}
}

// closeLedgers lets go of the ledgers: what still runs stays noted.
func (s *Supervisor) closeLedgers() {
	s.ledger.close()
	for _, l := range s.inherited {
		l.close()
	}
}
