package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wardenexec"
	"github.com/corral-exec/corral/pathenv"
)

// An Executor is one sandbox; it is a corral.Executor and an io.Closer.
type Executor struct {
	cfg       Config
	name      string // of the container
	stateDir  string // of this sandbox
	runDir    string // with the sockets, mounted into the container
	owner     *os.File
	warnings  []string
	warden    *wardenexec.Executor // drivers fds and frames
	exec      corral.Executor      // driver exec, nil until it is chosen
	execClose func() error
	// What commands that ask for nothing special are started with.
	plainShell, plainArgs func() (pathenv.Launch, error)

	mu     sync.Mutex
	driver Driver // resolved; empty until the first connection
	swept  bool
}

// New returns an Executor. Nothing is made before the first command.
func New(cfg Config) (*Executor, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, name: containerName(cfg.StateDir, cfg.Name), stateDir: filepath.Join(cfg.StateDir, "sandboxes", cfg.Name)}
	e.runDir = filepath.Join(e.stateDir, "run")
	e.plainShell = sync.OnceValues(func() (pathenv.Launch, error) { return e.newLaunch(corral.Command{Shell: plainText}) })
	e.plainArgs = sync.OnceValues(func() (pathenv.Launch, error) { return e.newLaunch(corral.Command{Args: []string{plainText}}) })
	if cfg.Driver != DriverAuto {
		e.driver = cfg.Driver
	}
	if err := e.makeDirs(); err != nil {
		return nil, err
	}
	var err error
	if e.owner, err = lockOwner(cfg.StateDir, cfg.Ephemeral); err != nil {
		return nil, err
	}
	e.warden, err = wardenexec.New(wardenexec.Options{
		Dir: filepath.Join(e.stateDir, "logs"), Connect: e.connect, Untrusted: true,
		Prepare: e.prepare, Info: e.info(), Log: cfg.Log,
	})
	if err != nil {
		e.unlockOwner()
		return nil, err
	}
	return e, nil
}

func (e *Executor) info() corral.Info {
	return corral.Info{Host: corral.HostSandbox, Sandboxed: true}
}

func (e *Executor) makeDirs() error {
	if err := os.MkdirAll(e.stateDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the sandbox's state directory: %w", err)
	}
	// Another user's warden reads it, through the mount; on this machine
	// the directory above keeps others out.
	if err := os.MkdirAll(e.runDir, 0o755); err != nil {
		return fmt.Errorf("cannot make the sandbox's socket directory: %w", err)
	}
	if e.cfg.WorkspaceAccess == AccessNone {
		return e.makeWorkspace()
	}
	e.warnings = append(e.warnings, e.ownerWarning()...)
	return nil
}

// Start implements corral.Executor.
func (e *Executor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if x := e.execDriver(); x != nil {
		return x.Start(ctx, cmd)
	}
	p, err := e.warden.Start(ctx, cmd)
	if errors.Is(err, errNoWarden) && e.cfg.Driver == DriverAuto {
		x, xerr := e.chooseExec()
		if xerr != nil {
			return nil, errors.Join(err, xerr)
		}
		e.cfg.Log.Warn("no warden can run in this image; using the engine's exec API", "image", e.cfg.Image, "error", err)
		return x.Start(ctx, cmd)
	}
	return p, err
}

// Attach implements corral.Executor.
func (e *Executor) Attach(ctx context.Context, id string) (corral.Process, error) {
	if x := e.execDriver(); x != nil {
		return x.Attach(ctx, id)
	}
	return e.warden.Attach(ctx, id)
}

// Close lets go of the sandbox, which stays for the next life of this program,
// unless it is ephemeral: then it is removed, with its commands.
func (e *Executor) Close() error {
	err := e.warden.Close()
	e.mu.Lock()
	closeExec := e.execClose
	e.exec, e.execClose = nil, nil
	e.mu.Unlock()
	if closeExec != nil {
		err = errors.Join(err, closeExec())
	}
	if e.cfg.Ephemeral {
		err = errors.Join(err, e.Remove(context.Background()))
	}
	e.unlockOwner()
	return err
}

// Remove removes the container, with whatever runs in it, and the private
// workspace. The next command makes a new one.
func (e *Executor) Remove(ctx context.Context) error {
	unlock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.cfg.Engine.Remove(ctx, e.name); err != nil {
		return err
	}
	if e.cfg.WorkspaceAccess == AccessNone {
		if err := os.RemoveAll(e.workspace()); err != nil {
			return fmt.Errorf("cannot remove the sandbox's workspace: %w", err)
		}
		return e.makeWorkspace()
	}
	return nil
}

// Status is what a sandbox is at the moment.
type Status struct {
	Name      string    `json:"name"`
	Driver    Driver    `json:"driver"`
	Container Container `json:"container"` // the zero value if there is none
}

// Status looks at the container.
func (e *Executor) Status(ctx context.Context) (Status, error) {
	c, err := e.cfg.Engine.Inspect(ctx, e.name)
	if err != nil && !errors.Is(err, ErrNoContainer) {
		return Status{}, err
	}
	s := Status{Name: e.cfg.Name, Driver: Driver(c.Labels[labelDriver]), Container: c}
	return s, nil
}

// prepare turns a command into what the warden executes.
func (e *Executor) prepare(_ context.Context, cmd corral.Command) (wardenexec.Prepared, error) {
	launch, err := e.launch(cmd)
	if err != nil {
		return wardenexec.Prepared{}, err
	}
	dir := cmd.Dir
	if !strings.HasPrefix(dir, "/") {
		dir = path.Join(Workdir, dir)
	}
	warnings := append(append([]string(nil), e.warnings...), launch.Env.Warnings()...)
	return wardenexec.Prepared{Args: launch.Args, Env: launch.Env.Vars, Dir: dir, Warnings: warnings}, nil
}

// launch is what a command is started with.
func (e *Executor) launch(cmd corral.Command) (pathenv.Launch, error) {
	if len(cmd.Env) > 0 || len(cmd.PathPrepend) > 0 || cmd.TTY != nil {
		return e.newLaunch(cmd)
	}
	// All others have the same environment, so it is made once.
	if cmd.Shell == "" {
		l, err := e.plainArgs()
		l.Args = cmd.Args
		return l, err
	}
	l, err := e.plainShell()
	if err == nil {
		last := len(l.Args) - 1
		l.Args = append(slices.Clip(l.Args[:last]), strings.TrimSuffix(l.Args[last], plainText)+cmd.Shell)
	}
	return l, err
}

// plainText stands for the text of any command.
const plainText = ":"

func (e *Executor) newLaunch(cmd corral.Command) (pathenv.Launch, error) {
	home := Workdir
	if e.cfg.WorkspaceAccess == AccessReadOnly {
		home = "/tmp"
	}
	return pathenv.Sandbox(pathenv.SandboxOptions{
		Shell: cmd.Shell, Args: cmd.Args, Config: e.cfg.Env, Call: cmd.Env,
		PathPrepend: append(append([]string(nil), cmd.PathPrepend...), e.cfg.PathPrepend...),
		Home:        home, Keep: e.cfg.Keep, Profile: e.cfg.Profile, TTY: cmd.TTY != nil,
	})
}

func (e *Executor) execDriver() corral.Executor {
	e.mu.Lock()
	driver, x := e.driver, e.exec
	e.mu.Unlock()
	if x != nil || driver != DriverExec {
		return x
	}
	x, err := e.chooseExec()
	if err != nil {
		return failing{err}
	}
	return x
}

// failing is an executor that cannot be.
type failing struct{ err error }

func (f failing) Start(context.Context, corral.Command) (corral.Process, error) { return nil, f.err }
func (f failing) Attach(context.Context, string) (corral.Process, error)        { return nil, f.err }
