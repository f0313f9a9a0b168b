package files

import (
	"context"
	"io"
)

// Sandbox is the FS of a whole sandbox: of Workspace for what is below Root, and
// of Others for everything else.
type Sandbox struct {
	Root      string // of the workspace, absolute and clean
	Workspace FS     // nil: Others has that too
	Others    FS
}

func (s Sandbox) of(name string) (FS, string, error) {
	name, err := Clean(s.Root, name)
	if err != nil {
		return nil, "", err
	}
	if _, ok := below(s.Root, name); ok && s.Workspace != nil {
		return s.Workspace, name, nil
	}
	return s.Others, name, nil
}

// Stat implements FS.
func (s Sandbox) Stat(ctx context.Context, name string) (Info, error) {
	f, name, err := s.of(name)
	if err != nil {
		return Info{}, err
	}
	return f.Stat(ctx, name)
}

// List implements FS.
func (s Sandbox) List(ctx context.Context, dir string, o ListOptions) (Page, error) {
	f, dir, err := s.of(dir)
	if err != nil {
		return Page{}, err
	}
	return f.List(ctx, dir, o)
}

// Read implements FS.
func (s Sandbox) Read(ctx context.Context, name string, o ReadOptions, to func(Info) (io.Writer, error)) error {
	f, name, err := s.of(name)
	if err != nil {
		return err
	}
	return f.Read(ctx, name, o, to)
}

// Write implements FS.
func (s Sandbox) Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (Info, error) {
	f, name, err := s.of(name)
	if err != nil {
		return Info{}, err
	}
	return f.Write(ctx, name, r, o)
}

// Mkdir implements FS.
func (s Sandbox) Mkdir(ctx context.Context, name string, o MkdirOptions) error {
	f, name, err := s.of(name)
	if err != nil {
		return err
	}
	return f.Mkdir(ctx, name, o)
}

// Remove implements FS.
func (s Sandbox) Remove(ctx context.Context, name string, all bool) error {
	f, name, err := s.of(name)
	if err != nil {
		return err
	}
	return f.Remove(ctx, name, all)
}

// Upload implements FS.
func (s Sandbox) Upload(ctx context.Context, dir string, r io.Reader, l Limits) (Totals, error) {
	f, dir, err := s.of(dir)
	if err != nil {
		return Totals{}, err
	}
	return f.Upload(ctx, dir, r, l)
}

// Download implements FS.
func (s Sandbox) Download(ctx context.Context, name string, w io.Writer, l Limits) (Totals, error) {
	f, name, err := s.of(name)
	if err != nil {
		return Totals{}, err
	}
	return f.Download(ctx, name, w, l)
}
