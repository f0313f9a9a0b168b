package sandbox

import (
	"slices"

	"github.com/corral-exec/corral/sandbox/boundary"
)

// Explain says what a container of the configuration is like on an engine, and
// what of the configuration is refused: the container is then described without
// it. Nothing is made, and the engine is not asked. An error says why there
// would be no container for another reason.
func (c Config) Explain(info EngineInfo) (Spec, []boundary.Refusal, error) {
	refusals := c.Refusals()
	for _, r := range refusals {
		switch r.Rule {
		case boundary.NetworkHost, boundary.NetworkContainer, boundary.NetworkEgress, boundary.NetworkName:
			c.Network = ""
		case boundary.SeccompUnconfined, boundary.SeccompProfile:
			c.Seccomp = ""
		case boundary.AppArmorUnconfined, boundary.AppArmorProfile:
			c.AppArmor = ""
		case boundary.UserRoot:
			c.User = ""
		default:
			c.Binds = slices.DeleteFunc(slices.Clone(c.Binds), func(text string) bool { return text == r.Subject })
			if r.Subject == c.Workspace || r.Path == c.Workspace {
				c.Workspace, c.WorkspaceAccess = "", AccessNone
			}
		}
	}
	secrets := c.Secrets
	c.Secrets = nil // whose place in memory would be made
	if c.Engine == nil {
		c.Engine = struct{ Engine }{} // it is only asked later
	}
	if err := c.complete(); err != nil {
		return Spec{}, refusals, err
	}
	c.Secrets = secrets
	if err := c.checkSecrets(); err != nil {
		return Spec{}, refusals, err
	}
	s := c.plan()
	if len(secrets) > 0 {
		s.Mounts = append(s.Mounts, Mount{Target: SecretsDir, ReadOnly: true})
	}
	return s, refusals, c.adapt(&s, info)
}
