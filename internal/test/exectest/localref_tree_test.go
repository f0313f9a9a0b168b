//go:build linux

package exectest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/procfs"
)

func processes() []procfs.Stat {
	dirs, err := filepath.Glob("/proc/[0-9]*") // with a file in the pattern it would read each directory
	if err != nil {
		panic(err) // a bad pattern
	}
	var list []procfs.Stat
	for _, dir := range dirs {
		if e, err := procfs.Read(dir); err == nil { // else it has ended
			list = append(list, e)
		}
	}
	return list
}

// tree finds what belongs to the command, the command itself first: by
// ancestry, by session, by the token in the environment, and by holding the
// write end of its output.
func (p *refProcess) tree() []int {
	if p.child == nil {
		return nil
	}
	if p.bad("signals only the command") {
		if p.ended() {
			return nil
		}
		return []int{p.child.Pid}
	}
	all := processes()
	ours := map[int]bool{}
	var order []int
	add := func(pid int) {
		if !ours[pid] {
			ours[pid] = true
			order = append(order, pid)
		}
	}
	self := os.Getpid()
	first, _ := procfs.Read("/proc/self")
	for _, e := range all {
		switch {
		case e.PID == self, e.Started < first.Started:
		case p.bad("signals only the process group"):
			if e.Group == p.child.Pid {
				add(e.PID)
			}
		case p.bad("signals everything it started"):
			p.world.mu.Lock()
			for _, q := range p.all {
				if q.info.PID == e.PID {
					add(e.PID)
				}
			}
			p.world.mu.Unlock()
		case e.PID == p.child.Pid && e.Parent == self, e.Session == p.child.Pid:
			add(e.PID)
		case p.hasToken(e.PID), p.holdsOutput(e.PID):
			add(e.PID)
		}
	}
	if p.bad("signals only the process group") {
		return order
	}
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			if ours[e.Parent] && !ours[e.PID] {
				add(e.PID)
				grown = true
			}
		}
	}
	slices.SortFunc(order, func(a, b int) int { // the command first
		return btoi(b == p.child.Pid) - btoi(a == p.child.Pid)
	})
	return order
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p *refProcess) hasToken(pid int) bool {
	if p.bad("does not look at environments") {
		return false
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), refToken+"="+p.token(p.cmd.ID))
}

func (p *refProcess) holdsOutput(pid int) bool {
	if p.bad("does not look at open pipes") {
		return false
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !slices.Contains(p.pipes, to) {
			continue
		}
		// Our own children hold the read end between fork and exec.
		if fi, err := os.Lstat(link); err == nil && fi.Mode().Perm()&0o200 != 0 {
			return true
		}
	}
	return false
}

// signalTree signals all; with SIGKILL until none is left, because each round
// may miss what was forked during it.
func (p *refProcess) signalTree(s syscall.Signal) error {
	found := false
	for range 100 {
		live := 0
		for _, pid := range p.tree() {
			now, err := procfs.Read(fmt.Sprintf("/proc/%d", pid))
			if err != nil || now.Ended() {
				continue
			}
			live++
			if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
				return err
			}
		}
		if live == 0 {
			break
		}
		found = true
		if s != syscall.SIGKILL {
			break
		}
	}
	if !found {
		return corral.Errorf(corral.ErrEnded, "", "signal %s: it has ended", p.info.ID)
	}
	return nil
}
