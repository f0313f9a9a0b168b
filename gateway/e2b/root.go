package e2b

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/sandbox/files"
)

// checkUser checks as whom something is to be done. Whatever name a client has for the
// sandbox's user, it is the same one: root where commands are root (sandbox.root).
func (s *Server) checkUser(c call) error {
	switch c.user {
	case "", path.Base(Home):
		return nil
	case rootName:
		if c.box.Root || s.cfg.Settings().Root.Value {
			return nil
		}
		return errRoot
	}
	return noUser(c.user)
}

const rootName = "root"

func noUser(name string) error {
	return corral.Errorf(api.ErrUnauthorized, "leave it out", "invalid user: there is no user %.40q in the sandbox", name)
}

// home is the home directory of the user of a call.
func (c call) home() string {
	if c.box.Root && c.user == rootName {
		return "/root"
	}
	return Home
}

// account is what every command has in its environment about its user, beside the home
// directory that commands have anyway.
func (c call) account() map[string]string {
	if home := c.home(); home != Home {
		return map[string]string{"USER": rootName, "LOGNAME": rootName, "HOME": home}
	}
	return map[string]string{"USER": path.Base(Home), "LOGNAME": path.Base(Home)}
}

// changesOf are what root changes in a sandbox, of which these are the files.
func changesOf(f files.FS) (files.Changes, error) {
	all, ok := f.(files.Sandbox)
	if !ok {
		return files.Changes{}, corral.Errorf(errors.ErrUnsupported, "", "there is no way to the root file system of this sandbox")
	}
	return all.Changes()
}

// beginRoot has all that root changes from now on kept by snapshots.
func (s *Server) beginRoot(ctx context.Context, b Box) error {
	f, err := s.home(ctx, b)
	if err != nil {
		return err
	}
	c, err := changesOf(f)
	if err != nil {
		return err
	}
	return c.Begin(ctx)
}

// copyRoot has root's changes of one sandbox in another one, too.
func copyRoot(ctx context.Context, from, to files.FS) error {
	a, err := changesOf(from)
	if err != nil {
		return err
	}
	b, err := changesOf(to)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	saved := make(chan error, 1)
	go func() {
		err := a.Save(ctx, w, files.DefaultLimits.Bytes)
		w.CloseWithError(err)
		saved <- err
	}()
	err = b.Restore(ctx, r)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if serr := <-saved; err == nil || serr != nil && errors.Is(err, serr) {
		err = serr
	}
	return err
}

// saveRoot keeps what root changed in a sandbox whose container is about to go.
func (s *Server) saveRoot(ctx context.Context, b Box) error {
	f, err := s.home(ctx, b)
	if err != nil {
		return err
	}
	c, err := changesOf(f)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(s.cfg.Store.rootFile(b.ID), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.Save(ctx, to, files.DefaultLimits.Bytes), to.Sync(), to.Close())
}

// restoreRoot has root's changes in the next container of a sandbox, too.
func (s *Server) restoreRoot(ctx context.Context, b Box) error {
	if err := s.beginRoot(ctx, b); err != nil {
		return err
	}
	file := s.cfg.Store.rootFile(b.ID)
	from, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := s.home(ctx, b)
	if err != nil {
		return err
	}
	c, err := changesOf(f)
	if err == nil {
		err = c.Restore(ctx, from)
	}
	if err == nil {
		err = os.Remove(file)
	}
	return err
}
