package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/sandbox/users"
)

// What a command writes belongs to the user outside, and what is the user's the
// command can read, by what kind of engine there is:
//
//   - One that runs as root: IDs are the same inside and outside.
//     Where the container has a user of its own (see users.go), its mounts show
//     the owner as that user (idmapped mounts). The container's mount is a copy
//     of one that is made for it: nothing has to be kept.
//   - One of root's with user namespaces (userns-remap): IDs inside are others
//     outside. A private workspace is given to the ID outside of the owner, and
//     all that is of this machine is mounted with its owner's ID mapped.
//   - A rootless one: root inside is the engine's user outside, and no other user
//     inside is. Commands run as that root, which has no capabilities and only the
//     rights of the engine's user.

// rootUser is who commands run as on a rootless engine, whose user that is, and with
// Isolation.Root.
const rootUser = "0:0"

// user is who commands run as.
func (c *Config) user(info engine.Info) string {
	if c.Isolation.Root || info.Rootless && c.anyUser {
		return rootUser
	}
	return c.Isolation.User
}

// checkOwner refuses a configuration by which files would belong to a user who
// cannot use them.
func (c *Config) checkOwner(info engine.Info) error {
	remapped := info.RemapUID != 0
	switch {
	case !info.Local:
		return nil
	case info.Rootless && !c.anyUser && c.Isolation.User != rootUser:
		return corral.Errorf(corral.ErrInvalid, "leave sandbox.user (--user) out: commands then run as the engine's user", "commands on a rootless engine cannot run as user %s: its files would belong to no user here", c.Isolation.User)
	case info.Rootless:
		owner, ok := users.OwnerOf(strings.TrimPrefix(info.Address, "unix://"))
		if ok && owner.UID != os.Geteuid() {
			return corral.Errorf(corral.ErrUnavailable, "run corral as that user, or use the machine's own engine", "the rootless engine at %s is user %d's, and corral runs as user %d: neither could use the other's files", info.Address, owner.UID, os.Geteuid())
		}
	case (remapped || c.Isolation.Root) && os.Geteuid() != 0:
		return corral.Errorf(corral.ErrUnavailable, "run corral as root, or use a rootless engine", "users in sandboxes of the engine at %s are others outside, and only root can give files to those", info.Address)
	}
	return nil
}

// checkRoot refuses root in a sandbox where it would have rights on this machine. gVisor
// changes files outside as root of the machine, which may make any file its own.
func (c *Config) checkRoot(mounts []engine.Mount, info engine.Info) error {
	switch {
	case !c.Isolation.Root:
		return nil
	case !info.KeepsRoot(c.Runtime):
		return corral.Errorf(corral.ErrDenied, "leave sandbox.root out; or use gVisor (sandbox.runtime: runsc), or an engine of root's that remaps users (userns-remap)", "commands cannot be root in a sandbox of the engine at %s: root would have rights outside of it, too", info.Address)
	case !c.gvisor():
		return nil
	}
	for _, m := range mounts {
		if !m.ReadOnly && !c.isPrivate(m) {
			return corral.Errorf(corral.ErrDenied, "mount it read-only, or leave sandbox.root out", "root of a sandbox in gVisor could make files in %s its own, whose they may be", m.Source)
		}
	}
	return nil
}

// remapped is a user of a container as it is outside.
func remapped(text string, info engine.Info) files.User {
	u := users.Parse(text)
	return files.User{UID: u.UID + info.RemapUID, GID: u.GID + info.RemapGID}
}

// mapped is cfg.User as it is outside.
func (c *Config) mapped(info engine.Info) files.User {
	return remapped(c.Isolation.User, info)
}

// own has the container's user be to the files of this machine what their owner
// is to them, and returns what is to be undone when the container runs. What is
// held is what is mounted.
func (c *Config) own(s *engine.Spec, info engine.Info, held boundary.Pins) (undo func(), err error) {
	var mounted []func() error
	undo = func() {
		for _, release := range mounted {
			if err := release(); err != nil {
				c.Log.Warn("a mount is left", "error", err)
			}
		}
	}
	fail := func(err error) (func(), error) {
		undo()
		return func() {}, err
	}
	if !info.Local || info.Rootless {
		return undo, nil
	}
	shown, owner := remapped(s.User, info), users.Parse(c.Isolation.User)
	maps := map[files.User]*users.Mapping{}
	defer func() {
		for _, m := range maps {
			err = errors.Join(err, m.Close())
		}
	}()
	for i, m := range s.Mounts {
		disk, private := owner, m.Source != "" && c.isPrivate(m)
		if private {
			disk = c.mapped(info)
			if err := give(m.Source, disk); err != nil {
				return fail(err)
			}
		}
		switch {
		case m.Source == "" || c.mappedSource(m) == "" || disk == shown:
			continue
		case s.User == c.Isolation.User && m.Target != c.workdir() && !private: // it has what the owner may do to others' files, as ever
			continue
		}
		if maps[disk] == nil {
			if c.Isolation.Root && c.gvisor() {
				maps[disk], err = users.NewRootMapping(disk)
			} else {
				maps[disk], err = users.NewMapping(disk, shown)
			}
			if err != nil {
				return fail(err)
			}
		}
		dir, release, err := maps[disk].Mount(held.FD(m.Target), !m.ReadOnly)
		if err != nil {
			return fail(corral.Errorf(corral.ErrUnavailable, "set sandbox.uidRange to shared, and with an engine that remaps users use access none; or have Linux from 5.12 with a file system that can be mounted with mapped IDs (ext4, xfs, btrfs)",
				"%s cannot be mounted so that its owner stays: %w", m.Source, err))
		}
		mounted = append(mounted, release)
		s.Mounts[i].Source = dir
	}
	return undo, nil
}

// isPrivate reports whether a mount is a directory that Corral made for sandboxes.
func (c *Config) isPrivate(m engine.Mount) bool {
	return c.hasPrivate() && m.Target == c.workdir() ||
		slices.ContainsFunc(c.Mounts.Volumes, func(v Volume) bool { return v.Target == m.Target })
}

// private is the directory of a private workspace or a volume, as the sandbox's user may
// use it.
func (c *Config) private(dir string, info engine.Info) (files.Directory, error) {
	if info.Rootless {
		return files.Directory{Path: dir, Offset: os.Geteuid()}, nil
	}
	user := c.mapped(info)
	return files.Directory{Path: dir, User: &user, Offset: info.RemapUID}, give(dir, user)
}

// Files are the files of the sandbox, as its user may use them. The workspace's
// are used without the container, where this machine sees them; for all others
// commands run in it, so that a sandbox is made if there is none.
func (e *Executor) Files(ctx context.Context) (files.FS, error) {
	info, err := e.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	set := e.set.Load()
	root := set.workdir()
	all := files.Sandbox{Root: root, Others: files.Commands{Exec: e, Root: root}}
	if !info.Local || set.inMemory() {
		return all, nil
	}
	dir, err := e.HostWorkspace(ctx)
	if err != nil {
		return nil, err
	}
	var d files.Directory
	if set.Workspace.Access == AccessNone || info.Rootless {
		if d, err = set.private(dir, info); err != nil { // there may have been no container yet
			return nil, err
		}
	} else {
		user := users.Parse(set.Isolation.User)
		d = files.Directory{Path: dir, User: &user}
	}
	d.Root, d.ReadOnly, d.Shown = root, set.Workspace.Access == AccessReadOnly, e.shownUser
	all.Workspace = d
	return all, nil
}

// give gives a private workspace to a user, if this program is root.
func give(dir string, to files.User) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Chown(dir, to.UID, to.GID); err != nil {
		return fmt.Errorf("cannot give the sandbox its workspace: %w", err)
	}
	return nil
}

// shownUser is who the sandbox's last container shows as the owner of the
// workspace; nil if that is the owner, and where there is no container.
func (e *Executor) shownUser() (*files.User, error) {
	rec, err := loadSandbox(e.stateDir, e.name)
	if err != nil || len(rec.Boxes) == 0 {
		return nil, err
	}
	box, err := loadBox(e.stateDir, rec.Boxes[len(rec.Boxes)-1])
	if errors.Is(err, os.ErrNotExist) || err == nil && box.UID == 0 && !box.Root {
		return nil, nil
	}
	user := users.Parse(box.User)
	return &user, err
}
