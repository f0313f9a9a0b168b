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
	if c.user == rootName && !c.box.Root && !s.cfg.Settings().Root.Value {
		return errRoot
	}
	return checkName(c.user)
}

const rootName = "root"

// checkName refuses a user whom no sandbox has.
func checkName(name string) error {
	switch name {
	case "", path.Base(Home), rootName:
		return nil
	}
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

// changes are what root changes in a sandbox outside of the home directory.
func (s *Server) changes(ctx context.Context, b Box) (files.Changes, error) {
	f, err := s.home(ctx, b)
	if err != nil {
		return files.Changes{}, err
	}
	all, ok := f.(files.Sandbox)
	if !ok {
		return files.Changes{}, corral.Errorf(errors.ErrUnsupported, "", "there is no way to the root file system of this sandbox")
	}
	return all.Changes()
}

// beginRoot has all that root changes from now on kept by snapshots.
func (s *Server) beginRoot(ctx context.Context, b Box) error {
	c, err := s.changes(ctx, b)
	if err != nil {
		return err
	}
	return c.Begin(ctx)
}

// save writes what root changed in a sandbox: what saveRoot kept, if its container is gone.
func (s *Server) save(ctx context.Context, b Box, to io.Writer) error {
	if b.Stopped {
		from, err := os.Open(s.cfg.Store.rootFile(b.ID))
		if err != nil { // it was just resumed, for one
			return corral.Errorf(corral.ErrConflict, "connect to it first", "cannot read what root changed in sandbox %s: %w", b.ID, err)
		}
		defer from.Close()
		_, err = io.Copy(to, from)
		return err
	}
	c, err := s.changes(ctx, b)
	if err != nil {
		return err
	}
	return c.Save(ctx, to, files.DefaultLimits.Bytes)
}

// appendRoot writes what root changed behind what is in a file, and returns how much.
func (s *Server) appendRoot(ctx context.Context, b Box, to *os.File) (int64, error) {
	from, err := to.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if err := s.save(ctx, b, to); err != nil {
		return 0, err
	}
	end, err := to.Seek(0, io.SeekCurrent)
	return end - from, err
}

// takeRoot has root's changes be in another sandbox, too.
func (s *Server) takeRoot(ctx context.Context, b Box, from io.Reader) error {
	c, err := s.changes(ctx, b)
	if err != nil {
		return err
	}
	return c.Restore(ctx, from)
}

// copyRoot has root's changes of one sandbox be in another one, too.
func (s *Server) copyRoot(ctx context.Context, from, to Box) error {
	r, w := io.Pipe()
	saved := make(chan error, 1)
	go func() {
		err := s.save(ctx, from, w)
		w.CloseWithError(err)
		saved <- err
	}()
	err := s.takeRoot(ctx, to, r)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if serr := <-saved; err == nil || serr != nil && errors.Is(err, serr) {
		err = serr
	}
	return err
}

// saveRoot keeps what root changed in a sandbox whose container is about to go.
func (s *Server) saveRoot(ctx context.Context, b Box) error {
	file := s.cfg.Store.rootFile(b.ID)
	to, err := os.OpenFile(file+unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	b.Stopped = false // not yet
	_, err = s.appendRoot(ctx, b, to)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(file+unfinished))
	}
	return os.Rename(file+unfinished, file)
}

// restoreRoot has root's changes be in the next container of a sandbox, too; or in the same
// one, if a crash kept it.
func (s *Server) restoreRoot(ctx context.Context, b Box) error {
	if err := s.beginRoot(ctx, b); err != nil {
		return err
	}
	from, err := os.Open(s.cfg.Store.rootFile(b.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	return s.takeRoot(ctx, b, from)
}

// forgetRoot removes what restoreRoot has put back, when nothing can fail any more that
// would need it again.
func (s *Server) forgetRoot(b Box) {
	if err := os.Remove(s.cfg.Store.rootFile(b.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("what root changed in a sandbox is kept beside it until it is paused again or removed", "sandbox", b.ID, "error", err)
	}
}
