package wardenexec

import (
	"errors"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// confine notes the domain that the process is to be in. A warden of an earlier
// version would start it in none, and say nothing.
func (p *process) confine(d *corral.Domain, c *client) error {
	if !d.Limits() {
		return nil
	}
	if err := d.Check(); err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "%w", err)
	}
	if !c.confines {
		const why = "the warden that runs here is of an earlier version; it ends when no command runs"
		if d.Required {
			return corral.Errorf(errors.ErrUnsupported, "wait until no command runs, or set tools.exec.enforce to try", "what the command may execute cannot be enforced: %s", why)
		}
		p.tag.Info.Warnings = append(p.tag.Info.Warnings[:len(p.tag.Info.Warnings):len(p.tag.Info.Warnings)], notEnforced(why))
		return nil
	}
	p.tag.Info.Enforced, p.tag.Losses = &confine.Enforced{Hint: d.Hint}, d.Lost
	return nil
}

func notEnforced(why string) string {
	return "What the command may execute and write is not enforced: " + why + "."
}

// maxWhy bounds, in bytes, what a warden says of why a domain is not in force.
const maxWhy = 1000

// tellLogin logs why commands are not spared their login profile, once.
func (e *Executor) tellLogin(why string) {
	why = printable(why[:min(len(why), maxWhy)])
	e.mu.Lock()
	told := why == "" || why == e.login
	if !told {
		e.login = why
	}
	e.mu.Unlock()
	if !told {
		e.log.Warn("each command reads its login profile: no snapshot can be kept of what that leaves", "why", why)
	}
}

// enforced takes what the warden says is in force.
func (p *process) enforced(m *wire.Message) {
	hint := p.tag.Info.Enforced
	if p.tag.Info.Enforced = confine.FromNumber(m.Enforced); p.tag.Info.Enforced != nil && hint != nil {
		p.tag.Info.Enforced.Hint = hint.Hint
	}
	warn := func(text ...string) { p.tag.Info.Warnings = slices.Concat(p.tag.Info.Warnings, text) }
	if p.tag.Info.Enforced != nil {
		warn(p.tag.Losses...)
	}
	if hint == nil || m.Text == "" {
		return
	}
	why := printable(m.Text[:min(len(m.Text), maxWhy)])
	text := notEnforced(why)
	if p.tag.Info.Enforced != nil {
		text = "Not all of what the command may execute is enforced: " + why + "."
	}
	warn(text)
}
