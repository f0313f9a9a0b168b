//go:build linux

package warden

import (
	"errors"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/landlock"
	"github.com/corral-exec/corral/internal/warden/spawn"
	"github.com/corral-exec/corral/internal/warden/wire"
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

// spawn makes a process in the domain that p is to be in. Where that cannot be, and
// need not, it makes one without.
func (s *Supervisor) spawn(p *proc, file string, args []string, attr spawn.Attr) (pid int, err error) {
	if p.domain != nil {
		got, err := s.domains.Start(p.domain, file, args, attr)
		if u := (*landlock.Unenforced)(nil); !errors.As(err, &u) || p.domain.Required {
			p.jail, p.enforced, p.unenforced = got.Jail, got.Enforced.Number(), got.Missing
			return got.PID, err
		}
		p.unenforced = err.Error()
	}
	return spawn.Start(file, args, &attr)
}
