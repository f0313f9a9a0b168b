//go:build linux

package warden

import (
	"errors"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/landlock"
	"github.com/corral-exec/corral/internal/wire"
)

// confine notes the execution domain that a process is to be in.
func (p *proc) confine(m *wire.Message) *fail {
	if len(m.Domain) == 0 {
		return nil
	}
	d, err := confine.Parse(m.Domain)
	if err != nil {
		return failf(wire.CodeInvalid, "%v", err)
	}
	if d.Limits() {
		p.domain = d
	}
	return nil
}

// forkIn makes a process in the domain that p is to be in. Where that cannot be,
// and need not, it makes one without.
func (s *Supervisor) forkIn(p *proc, fork func() (int, error)) (int, error) {
	if p.domain == nil {
		return fork()
	}
	got, err := s.domains.Start(p.domain, fork)
	if u := (*landlock.Unenforced)(nil); errors.As(err, &u) {
		if p.domain.Required {
			return 0, err
		}
		p.unenforced = u.Error()
		return fork()
	}
	if err == nil {
		p.jail, p.enforced, p.unenforced = got.Jail, got.Enforced.Number(), got.Missing
	}
	return got.PID, err
}
