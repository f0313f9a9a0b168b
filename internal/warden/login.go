//go:build linux

package warden

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/corral-exec/corral/internal/warden/login"
	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// snapshotLimit bounds how long a snapshot of a login profile may take.
const snapshotLimit = 30 * time.Second

// spareProfile has a login shell read no profile, where it is known what that leaves. It
// returns the environment for it, and changes the arguments of m.
func (s *Supervisor) spareProfile(p *proc, m *wire.Message, env []string) []string {
	plain, ok := login.Shell(m.Args)
	if !ok || m.Flags&wire.FlagLogin == 0 || p.flags&wire.FlagTTY != 0 || p.domain != nil || !s.opts.ReapAll {
		return env
	}
	own := env[:len(env)-1] // without EnvID
	use := s.logins.Use(plain[0], own, m.Dir)
	if use.Take != nil {
		s.takeSnapshot(plain[0], own, m.Dir, use.Take)
	}
	p.login = use.Why
	if use.Env == nil {
		return env
	}
	m.Args = plain
	return append(slices.Clone(use.Env), env[len(env)-1])
}

// takeSnapshot has this program run beside the commands, to take a snapshot.
func (s *Supervisor) takeSnapshot(shell string, env []string, dir string, take func(io.Reader)) {
	r, w, err := os.Pipe()
	if err != nil {
		take(nil)
		return
	}
	defer w.Close()
	attr := spawn.Attr{Dir: dir, Env: append(slices.Clone(env), EnvID+"="+login.Placeholder), Files: [3]int{s.devnull, int(w.Fd()), s.devnull}}
	s.offer()
	_, err = spawn.Start("/proc/self/exe", []string{"corral-warden", login.Take, shell}, &attr)
	s.offered()
	if err != nil {
		s.logf("cannot take a snapshot of the login profile: %v", err)
		r.Close()
		take(nil)
		return
	}
	s.mu.Lock()
	s.forks++ // it is reaped as an orphan is
	s.spawned.Signal()
	s.mu.Unlock()
	s.taking.Store(r)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer r.Close()
		if err := r.SetReadDeadline(time.Now().Add(snapshotLimit)); err != nil {
			take(nil)
			return
		}
		take(r)
	}()
}
