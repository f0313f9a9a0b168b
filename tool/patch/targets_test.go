//go:build unix

package patch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// targets are all kinds of workspaces, over the same directory.
var targets = map[string]func(t *testing.T, dir string) Target{
	"directory": func(_ *testing.T, dir string) Target { return Directory{Path: dir} },
	"commands": func(t *testing.T, dir string) Target {
		return NewCommands(newHost(t), dir)
	},
}

// newHost returns an executor of this machine.
func newHost(t *testing.T) corral.Executor {
	t.Helper()
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(testdir.New(t), "host"), Workspace: testdir.New(t),
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// A faulty target fails at a step: at the step-th call that changes anything.
type faulty struct {
	Target
	fault func(step int) error // before the step is done; nil: nothing
	steps *int
	name  *string // set to the name that the step changes, unless nil
}

func (f faulty) open(ctx context.Context) (workspace, error) {
	ws, err := f.Target.open(ctx)
	if err != nil {
		return nil, err
	}
	return faultyWorkspace{ws, f}, nil
}

type faultyWorkspace struct {
	workspace
	f faulty
}

func (w faultyWorkspace) step(name string) error {
	*w.f.steps++
	if w.f.name != nil {
		*w.f.name = name
	}
	return w.f.fault(*w.f.steps)
}

func (w faultyWorkspace) mkdir(ctx context.Context, name string, perm fs.FileMode, o owner) error {
	if err := w.step(name); err != nil {
		return err
	}
	return w.workspace.mkdir(ctx, name, perm, o)
}

func (w faultyWorkspace) create(ctx context.Context, name string, content []byte, perm fs.FileMode, o owner) error {
	if err := w.step(name); err != nil {
		return errors.Join(err, w.workspace.create(ctx, name, content[:len(content)/2], perm, o)) // in part
	}
	return w.workspace.create(ctx, name, content, perm, o)
}

func (w faultyWorkspace) link(ctx context.Context, from, to string) error {
	if err := w.step(to); err != nil {
		return err
	}
	return w.workspace.link(ctx, from, to)
}

func (w faultyWorkspace) rename(ctx context.Context, from, to string) error {
	if err := w.step(to); err != nil {
		return err
	}
	return w.workspace.rename(ctx, from, to)
}

func (w faultyWorkspace) remove(ctx context.Context, name string) error {
	if err := w.step(name); err != nil {
		return err
	}
	return w.workspace.remove(ctx, name)
}

func (w faultyWorkspace) sync(ctx context.Context, dir string) error {
	if err := w.step(dir); err != nil {
		return err
	}
	return w.workspace.sync(ctx, dir)
}
