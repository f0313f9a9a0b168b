package sandbox

import (
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
	"github.com/corral-exec/corral/sandbox/users"
)

// hold readies what is mounted of this machine, if this program sees the files that the
// engine does: secrets are written, and pins hold on to all of it. The caller lets go of
// them, also after an error.
func (c *Config) hold(s engine.Spec, here bool) (boundary.Pins, error) {
	pins := boundary.Pins{}
	if !here {
		return pins, nil
	}
	if err := secrets.Write(c.StateDir, c.Name, c.Mounts.Secrets, users.Parse(c.Isolation.User)); err != nil {
		return pins, err
	}
	for _, m := range s.Mounts {
		if m.Volume {
			continue
		}
		if err := pins.Hold(m.Source, m.Target); err != nil {
			return pins, err
		}
	}
	return pins, nil
}
