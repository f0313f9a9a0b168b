package sandbox

import (
	"slices"

	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// Explain says what a container of the configuration is like on an engine, and
// what of the configuration is refused: that is described as it was asked for,
// and refused binds are left out. Nothing is made, and the engine is not asked.
// An error says why there would be no container for another reason.
func (c Config) Explain(info engine.Info) (engine.Spec, []boundary.Refusal, error) {
	c.useDefault(info)
	if resolved := c; resolved.completeWorkspace() == nil { // else complete says why
		c.Workspace.Dir = resolved.Workspace.Dir
	}
	refusals := c.Refusals()
	var asked []func(*engine.Spec)
	for _, r := range refusals {
		switch r.Rule {
		case boundary.NetworkHost, boundary.NetworkContainer, boundary.NetworkEgress, boundary.NetworkName:
			c.Isolation.Network = ""
			asked = append(asked, func(s *engine.Spec) { s.Network = r.Subject })
		case boundary.SeccompUnconfined, boundary.SeccompProfile:
			c.Isolation.Seccomp = ""
			asked = append(asked, func(s *engine.Spec) { s.Seccomp, s.Profile = nil, "" })
		case boundary.AppArmorUnconfined, boundary.AppArmorProfile:
			c.Isolation.AppArmor = ""
			asked = append(asked, func(s *engine.Spec) { s.AppArmor = r.Subject })
		case boundary.UserRoot:
			c.Isolation.User = ""
			asked = append(asked, func(s *engine.Spec) { s.User = r.Subject })
		default:
			c.Mounts.Binds = slices.DeleteFunc(slices.Clone(c.Mounts.Binds), func(text string) bool { return text == r.Subject })
			if dir := c.Workspace.Dir; dir != "" && r.Subject == dir {
				readOnly := c.Workspace.Access == AccessReadOnly
				c.Workspace.Dir, c.Workspace.Access = "", AccessNone
				c.Workspace.Size, c.Workspace.Medium = 0, "" // which are about a private one
				asked = append(asked, func(s *engine.Spec) { s.Mounts[0] = engine.Mount{Source: dir, Target: c.workdir(), ReadOnly: readOnly} })
			}
		}
	}
	given := c.Mounts.Secrets
	c.Mounts.Secrets = nil // whose place in memory would be made
	if c.Engine == nil {
		c.Engine = struct{ engine.Engine }{} // it is only asked later
	}
	if err := c.complete(); err != nil {
		return engine.Spec{}, refusals, err
	}
	c.Mounts.Secrets = given
	if err := secrets.Check(given); err != nil {
		return engine.Spec{}, refusals, err
	}
	s := c.plan()
	if len(given) > 0 {
		s.Mounts = append(s.Mounts, engine.Mount{Target: secrets.Dir, ReadOnly: true})
	}
	err := c.adapt(&s, info)
	for _, ask := range asked {
		ask(&s)
	}
	return s, refusals, err
}
