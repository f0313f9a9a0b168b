package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/users"
)

// DefaultUIDRange and SharedUIDs are values of Config.UIDRange.
const (
	DefaultUIDRange = users.DefaultRange
	SharedUIDs      = users.Shared
)

// lent are the users that containers have.
var lent = users.Table{Dir: "/run/corral-users", Box: func(l users.Lease) string { return boxDir(l.State, l.Box) }}

// SharedUser says why commands would run as the owner of their files, with
// whatever else runs as that; empty if containers have a user of their own. The
// engine is not asked.
func (c Config) SharedUser(info engine.Info) (why string, err error) {
	c.useDefault(info)
	c.Mounts.Secrets = nil // whose place in memory would be made
	if c.Engine == nil {
		c.Engine = struct{ engine.Engine }{} // it is only asked later
	}
	if err := c.complete(); err != nil {
		return "", err
	}
	return c.sharesUser(info, c.plan().Mounts), nil
}

// sharesUser says why commands would run as the owner of their files (User), with
// whatever else runs as that; empty if they have a user of their own. It has to
// be called for a configuration that is complete.
func (c *Config) sharesUser(info engine.Info, mounts []engine.Mount) string {
	switch {
	case c.Isolation.Root:
		return "they are root in the sandbox (sandbox.root)"
	case !c.anyUser:
		return "sandbox.user names it"
	case c.uids.None():
		return "sandbox.uidRange is " + users.Shared
	case c.isolatedKernel():
		return "the runtime " + c.Runtime + " has a kernel of its own, which counts for itself"
	case !info.Local:
		return "the engine at " + info.Address + " does not see this machine's files"
	case info.Rootless:
		return "the engine at " + info.Address + " is rootless: it has the rights of one user"
	case os.Geteuid() != 0:
		return "corral does not run as root"
	}
	for _, m := range mounts {
		if dir := c.mappedSource(m); dir != "" {
			if err := users.CheckMapped(dir, !m.ReadOnly); err != nil {
				return fmt.Sprintf("%s cannot be mounted with mapped IDs: %v", dir, err)
			}
		}
	}
	return ""
}

// mappedSource is the path on this machine that a mount shows with its owner mapped;
// empty for a mount in which rights do not count.
func (c *Config) mappedSource(m engine.Mount) string {
	switch {
	case m.Volume, m.Target == wardenPath, m.Target == socketDir:
		return ""
	case m.Source == "": // a private workspace that is not there yet
		return workspaceDir(c.StateDir, "new")
	}
	return m.Source
}

// lend gives the container of a box a user of its own, if it can have one. The
// caller notes the box and calls noted; until then the lock on leases is held.
func (s *setup) lend(ctx context.Context, info engine.Info, spec *engine.Spec, r *boxRecord) (noted func(), err error) {
	noted = func() {}
	if why := s.sharesUser(info, spec.Mounts); why != "" {
		s.Log.Debug("commands run as the owner of their files", "name", s.Name, "user", spec.User, "why", why)
		return noted, nil
	}
	from, offset := s.uids, 0
	if info.RemapUID != 0 {
		from, offset = users.Remapped, info.RemapUID
	}
	uid, unlock, err := lent.Lend(ctx, from, offset, users.Lease{State: s.StateDir, Box: r.ID})
	if err != nil {
		return noted, err
	}
	r.UID = uid + offset
	spec.User = fmt.Sprintf("%d:%d", uid, uid)
	return unlock, nil
}

// note notes a box before its container is made, with the user that it has.
func (s *setup) note(ctx context.Context, info engine.Info, spec *engine.Spec, r *boxRecord) error {
	noted, err := s.lend(ctx, info, spec, r)
	if err != nil {
		return err
	}
	r.describe(s, *spec)
	err = saveBox(s.StateDir, *r)
	noted()
	if err != nil {
		return errors.Join(err, r.returnUser())
	}
	return nil
}

// returnUser gives back the user of a box that is gone.
func (r boxRecord) returnUser() error {
	if r.UID == 0 {
		return nil
	}
	return lent.Return(r.UID, r.ID)
}
