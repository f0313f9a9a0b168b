package sandbox

import (
	"context"

	"github.com/corral-exec/corral/sandbox/files"
)

// Files are the files of the sandbox, as its user may use them. The workspace's
// are used without the container, where this machine sees them; for all others
// commands run in it, so that a sandbox is made if there is none.
func (e *Executor) Files(ctx context.Context) (files.FS, error) {
	info, err := e.cfg.Engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	all := files.Sandbox{Root: Workdir, Others: files.Commands{Exec: e, Root: Workdir}}
	if info.Local {
		uid, gid := splitUser(e.cfg.User)
		all.Workspace = files.Directory{
			Path: e.workspace(), Root: Workdir, ReadOnly: e.cfg.WorkspaceAccess == AccessReadOnly,
			User: &files.User{UID: uid, GID: gid},
		}
	}
	return all, nil
}
