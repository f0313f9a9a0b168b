package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/files"
)

// Backends make what commands run on. Tests replace them.
type Backends struct {
	Lone    func(HostOptions) (Executor, error)   // this machine, for one command
	Host    func(KeeperOptions) (Executor, error) // this machine, under a warden
	Sandbox func(SandboxOptions) (Executor, error)
	Pool    func(SandboxOptions, int) (WarmPool, error)
	Engine  func(ctx context.Context, choice string) (Engine, error)
	// Volume is sandbox.Config.Volume.
	Volume func(ctx context.Context, o SandboxOptions, dir string) (files.FS, error)
}

// RealBackends are those of this machine.
func RealBackends() Backends {
	return Backends{Lone: openLone, Host: openKeeper, Sandbox: openSandbox, Pool: openPool, Engine: OpenEngine, Volume: openVolume}
}

// An Executor lets go of what it holds with Close.
type Executor interface {
	corral.Executor
	io.Closer
}

// HostOptions say how commands run on this machine.
type HostOptions struct {
	Rules     pathenv.Rules
	Workspace string
	Environ   []string
	LoginPath string // a file, see pathenv.ProbeOptions.Kept; empty: none
}

// SandboxOptions say what a sandbox is like.
type SandboxOptions struct {
	Settings
	StateDir string
	Progress Progress
	Pool     *sandbox.Pool // nil: none
	Log      *slog.Logger  // nil: nothing is logged
	// Admit is sandbox.Config.Admit.
	Admit func(ctx context.Context, want sandbox.Limits) (noted func(), err error)
}

// Progress shows how it goes with getting an image.
type Progress interface {
	Show(images.Event)
	Finish()
}

// An Engine is what Corral's commands want of a container engine.
type Engine interface {
	Facts(ctx context.Context) (doctor.EngineFacts, error)
	Images() images.Engine
	// Check is what it does not have; see engine.Checker.
	Check(ctx context.Context, s engine.Spec) ([]engine.Lack, error)
	// Sandboxes are the containers of a state directory.
	Sandboxes(ctx context.Context, stateDir string) ([]SandboxRow, error)
	// Inspect takes the name of a container. engine.ErrNoContainer if there is
	// none.
	Inspect(ctx context.Context, container string) (engine.Container, error)
	// Stats is what a container uses; see engine.StatsEngine.
	Stats(ctx context.Context, container string) (engine.Stats, error)
	// RemoveSandbox kills and removes one. With force it also does if a container of it is at
	// another engine, and leaves that there.
	RemoveSandbox(ctx context.Context, stateDir, name string, force bool) error
	// Pause freezes what runs in one, and Resume has it go on.
	Pause(ctx context.Context, stateDir, name string) error
	Resume(ctx context.Context, stateDir, name string) error
	// Sweep removes what gateways that are gone left behind.
	Sweep(ctx context.Context, stateDir string) ([]string, error)
	// Prune removes old parts of sandboxes that are not in use.
	Prune(ctx context.Context, stateDir string, of func(sandbox.Sandbox) sandbox.PruneOptions) ([]string, error)
	Close() error
}

// A lone host is for one command: it lives in this process, and what it has to
// keep it keeps in a directory of its own, which goes with it.
type loneHost struct {
	*hostexec.Executor
	dir *tempDir
}

func openLone(o HostOptions) (_ Executor, err error) {
	g := &loneHost{}
	running := sweepTempDirs()
	if g.dir, err = newTempDir(); err != nil {
		return nil, err
	}
	g.Executor, err = hostexec.Open(hostexec.Config{
		StateDir: g.dir.path, Workspace: o.Workspace, InProcess: true, TakeOver: running,
		Environ: o.Environ, EnvPath: o.Rules.EnvPath, Keep: o.Rules.Keep,
		LoginProbe: pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: o.Environ, Home: AccountHome(), Kept: o.LoginPath}),
	})
	if err != nil {
		return nil, errors.Join(err, g.dir.Close())
	}
	return g, nil
}

// AccountHome is empty where the account has none: the probe then leaves HOME
// as it is.
func AccountHome() string {
	home, err := pathenv.AccountHome()
	if err != nil {
		return ""
	}
	return home
}

func (g *loneHost) Close() error {
	return errors.Join(g.Executor.Close(), g.dir.Close())
}

// A progressLog shows progress in the log of a gateway: a line for each phase.
type progressLog struct {
	log *slog.Logger

	mu    sync.Mutex
	phase images.Phase
}

func (p *progressLog) Show(e images.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Warning:
		p.log.Warn(words.OneLine(words.Sentence(e.Message)), "image", e.Image)
	case e.Phase != p.phase && e.Message != "":
		p.phase = e.Phase
		p.log.Info("getting an image: "+words.OneLine(e.Message), "image", e.Image)
	}
}

func (p *progressLog) Finish() {}
