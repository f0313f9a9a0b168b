//go:build e2e

package interactive_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
)

// A place is where programs run.
type place struct {
	*testing.T
	work  string // the workspace, as this process sees it
	state string
	agent session.Agent
}

// everywhere runs a test on this machine, under a warden, and in a sandbox.
func everywhere(t *testing.T, test func(pl *place)) {
	t.Run("gateway", func(t *testing.T) {
		t.Parallel()
		pl := newPlace(t)
		executor, err := hostexec.New(hostexec.Config{
			StateDir: pl.state, Workspace: pl.work, WardenPath: wardenbintest.Build(t), Log: pl.log(),
			// What a daemon has that no terminal started.
			Environ: []string{"HOME=" + pl.work, "PATH=/usr/bin:/bin", "SHELL=/bin/sh", "LANG=C.UTF-8"},
		})
		if err != nil {
			t.Fatal(err)
		}
		pl.open(executor, executor.Close)
		test(pl)
	})
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		makeImage(t)
		pl := newPlace(t)
		executor, err := sandbox.New(sandbox.Config{
			Engine: enginetest.New(t), StateDir: pl.state, Image: image, WardenPath: wardenbintest.Build(t), Log: pl.log(),
			Workspace: sandbox.Workspace{Dir: pl.work, Access: sandbox.AccessReadWrite},
		})
		if err != nil {
			t.Fatal(err)
		}
		pl.open(executor, executor.Close)
		test(pl)
	})
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := testdir.New(t)
	pl := &place{T: t, work: filepath.Join(dir, "work"), state: filepath.Join(dir, "state")}
	if err := os.Mkdir(pl.work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(pl.work, 1000, 1000); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	return pl
}

func (pl *place) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(pl.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open opens the table of sessions over the executor.
func (pl *place) open(x corral.Executor, closeIt func() error) {
	pl.Helper()
	m, err := session.Open(pl.Context(), session.Config{
		Dir: filepath.Join(pl.state, "sessions"), Log: pl.log(),
		Executor: func(context.Context, string) (corral.Executor, error) { return x, nil },
	})
	if err != nil {
		pl.Fatal(errors.Join(err, closeIt()))
	}
	pl.Cleanup(func() {
		if err := errors.Join(m.Close(), closeIt()); err != nil {
			pl.Error(err)
		}
	})
	pl.agent = m.Agent(session.DefaultAgent)
}

// path is that of a file of the workspace, here.
func (pl *place) path(name string) string { return filepath.Join(pl.work, name) }

// file makes a file of the workspace, as the user who works there.
func (pl *place) file(name, text string) {
	pl.Helper()
	if err := os.WriteFile(pl.path(name), []byte(text), 0o600); err != nil {
		pl.Fatal(err)
	}
	if err := os.Chown(pl.path(name), 1000, 1000); err != nil && os.Geteuid() == 0 {
		pl.Fatal(err)
	}
}

func (pl *place) read(name string) string {
	pl.Helper()
	data, err := os.ReadFile(pl.path(name))
	if err != nil {
		pl.Fatal(err)
	}
	return string(data)
}
