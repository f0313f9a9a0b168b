package sandbox

import (
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
	"github.com/corral-exec/corral/sandbox/users"
)

// pins hold on to what is mounted from this machine, from before a container is
// made until it runs: what was judged is what is in it.
type pins []pinned

type pinned struct {
	*boundary.Pin
	target string
}

// hold readies what is mounted of this machine: secrets are written, and pins
// hold on to all of it.
func (c *Config) hold(s engine.Spec, here bool) (pins, error) {
	if here {
		if err := secrets.Write(c.StateDir, c.Name, c.Mounts.Secrets, users.Parse(c.Isolation.User)); err != nil {
			return nil, err
		}
	}
	return pin(s, here)
}

// pin holds on to the bind mounts of a container, if they are files that this
// program sees. The caller lets go of them.
func pin(s engine.Spec, here bool) (_ pins, err error) {
	var list pins
	defer func() {
		if err != nil {
			list.release()
		}
	}()
	for _, m := range s.Mounts {
		if m.Volume || !here {
			continue
		}
		p, err := boundary.Hold(m.Source)
		if err != nil {
			return nil, err
		}
		list = append(list, pinned{p, m.Target})
	}
	return list, nil
}

// at is what is held of what is mounted at target, opened with O_PATH.
func (l pins) at(target string) int {
	for _, p := range l {
		if p.target == target {
			return p.FD()
		}
	}
	return -1
}

// verify is for before the container's start.
func (l pins) verify() error {
	for _, p := range l {
		if err := p.Verify(); err != nil {
			return err
		}
	}
	return nil
}

// verifyIn is for after it, and before anything of ours runs there.
func (l pins) verifyIn(c engine.Container) error {
	if c.PID == 0 {
		return nil // it has ended
	}
	for _, p := range l {
		if err := p.VerifyIn(c.PID, p.target); err != nil {
			return err
		}
	}
	return nil
}

func (l pins) release() {
	for _, p := range l {
		_ = p.Close() // a descriptor that only was looked at
	}
}
