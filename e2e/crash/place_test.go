//go:build e2e

package crash_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A place is where commands run, and all that a gateway must know to open it.
type place struct {
	Kind   string // host, fds, frames, gvisor or gvisor-uds; on containerd, which opens sockets to gVisor, as containerd-fds, -frames, -gvisor
	State  string
	Work   string // with testprog and the directory runs in it
	Warden string
	Engine string // address; empty: the default
}

const onContainerd = "containerd-"

// way is how a sandbox is reached, whatever its engine.
func (pl place) way() string { return strings.TrimPrefix(pl.Kind, onContainerd) }

// slow is how many times longer things take there.
func (pl place) slow() int {
	if strings.HasPrefix(pl.way(), "gvisor") {
		return 5
	}
	return 1
}

func newPlace(t *testing.T, kind string) place {
	t.Helper()
	dir := testdir.New(t)
	pl := place{Kind: kind, State: filepath.Join(dir, "state"), Work: filepath.Join(dir, "work"), Warden: wardenbintest.Build(t)}
	for _, d := range []string{pl.Work, filepath.Join(pl.Work, "runs")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, 1000, 1000); os.Geteuid() == 0 && err != nil {
			t.Fatal(err)
		}
	}
	exectest.BuildTestProg(t, pl.Work)
	switch {
	case kind == "host":
	case pl.way() != kind:
		pl.Engine = enginetest.Containerd(t).Address()
	default:
		enginetest.New(t)
	}
	return pl
}

// logs is the directory of records and logs.
func (pl place) logs() string {
	if pl.Kind == "host" {
		return filepath.Join(pl.State, "logs", "host")
	}
	return filepath.Join(pl.State, "sandboxes", "default", "logs")
}

// wardenDir is where a host warden has its lock.
func (pl place) wardenDir() string { return filepath.Join(pl.State, "run", "host") }

// open makes an executor, which writes what it warns of to log.
func (pl place) open(log io.Writer) (corral.Executor, func() error, error) {
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if pl.Kind == "host" {
		e, err := hostexec.New(hostexec.Config{
			StateDir: pl.State, Workspace: pl.Work, WardenPath: pl.Warden, Log: logger,
			Environ: []string{"HOME=" + pl.Work, "PATH=/usr/bin:/bin", "SHELL=/bin/sh"},
		})
		if err != nil {
			return nil, nil, err
		}
		return e, e.Close, nil
	}
	engine, err := pl.engine()
	if err != nil {
		return nil, nil, err
	}
	cfg := sandbox.Config{
		Engine: engine, StateDir: pl.State, Image: images.Busybox, WardenPath: pl.Warden, Log: logger,
		Workspace: sandbox.Workspace{Dir: pl.Work, Access: sandbox.AccessReadWrite},
	}
	switch pl.way() {
	case "gvisor":
		cfg.Runtime = "runsc"
	case "gvisor-uds":
		cfg.Runtime, cfg.Driver = "runsc-uds", sandbox.DriverFDs
	default:
		cfg.Driver = sandbox.Driver(pl.way())
	}
	e, err := sandbox.New(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, engine.Close())
	}
	return e, func() error { return errors.Join(e.Close(), engine.Close()) }, nil
}

// engine connects to the place's engine.
func (pl place) engine() (engine.Engine, error) {
	if pl.way() != pl.Kind {
		return containerd.New(containerd.Options{Address: pl.Engine})
	}
	return docker.New(docker.Options{Host: pl.Engine})
}

// here opens the place in this process.
func (pl place) here(t *testing.T) corral.Executor {
	t.Helper()
	x, closeIt, err := pl.open(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeIt(); err != nil {
			t.Error(err)
		}
	})
	return x
}
