package files

import (
	"context"
	"io"
)

// Sandbox is the FS of a whole sandbox: of Workspace for what is below Root, and
// of Others for everything else. Both have the same root.
type Sandbox struct {
	Root      string // of the workspace, absolute and clean
	Workspace FS     // nil: Others has that too
	Others    FS
}

// of is the FS that has a file. What is no name, Others refuses.
func (s Sandbox) of(name string) FS {
	clean, err := Clean(s.Root, name)
	if _, ok := below(s.Root, clean); ok && err == nil && s.Workspace != nil {
		return s.Workspace
	}
	return s.Others
}

// Stat implements FS.
func (s Sandbox) Stat(ctx context.Context, name string) (Info, error) {
	return s.of(name).Stat(ctx, name)
}

// List implements FS.
func (s Sandbox) List(ctx context.Context, dir string, o ListOptions) (Page, error) {
	return s.of(dir).List(ctx, dir, o)
}

// Read implements FS.
func (s Sandbox) Read(ctx context.Context, name string, o ReadOptions, to func(Info) (io.Writer, error)) error {
	return s.of(name).Read(ctx, name, o, to)
}

// Write implements FS.
func (s Sandbox) Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (Info, error) {
	return s.of(name).Write(ctx, name, r, o)
}

// Mkdir implements FS.
func (s Sandbox) Mkdir(ctx context.Context, name string, o MkdirOptions) error {
	return s.of(name).Mkdir(ctx, name, o)
}

// Remove implements FS.
func (s Sandbox) Remove(ctx context.Context, name string, all bool) error {
	return s.of(name).Remove(ctx, name, all)
}

// Upload implements FS.
func (s Sandbox) Upload(ctx context.Context, dir string, r io.Reader, l Limits) (Totals, error) {
	return s.of(dir).Upload(ctx, dir, r, l)
}

// Download implements FS.
func (s Sandbox) Download(ctx context.Context, name string, w io.Writer, l Limits) (Totals, error) {
	return s.of(name).Download(ctx, name, w, l)
}
