package hostexec

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wardenexec"
	"github.com/corral-exec/corral/pathenv"
)

// Config of an Executor. StateDir is required.
type Config struct {
	// StateDir holds logs, records and the warden's socket. One gateway's
	// executor at a time should use it; several may.
	StateDir string
	// Workspace is the working directory of commands that name none. Empty:
	// this process's.
	Workspace string

	// InProcess runs the supervisor in this process, for programs that run
	// a command or two: Close kills what still runs, and nothing is found
	// by a later life.
	InProcess bool
	// WardenPath is the corral-warden program. Empty: it is looked for in
	// $CORRAL_WARDEN, beside this program's executable, inside it, and on
	// PATH, in this order.
	WardenPath string

	// Environ is what commands inherit. Nil: this process's environment.
	Environ []string
	// LoginPath yields the login shell's PATH. Nil: there is none to merge.
	LoginPath func(context.Context) (string, error)
	// PathPrepend are directories before everything else on PATH.
	PathPrepend []string
	// EnvPath is what becomes of a PATH in a command's Env.
	EnvPath pathenv.EnvPath
	// Keep names variables to hand on that look like credentials.
	Keep []string
	// Profile chooses the marker variables and the shell.
	Profile pathenv.Profile

	Log *slog.Logger
}

// A Plan is how a command is executed.
type Plan struct {
	Args []string            // the program and its arguments; for shell text the shell's
	Dir  string              // working directory
	Env  pathenv.Environment // with the origin of what is in it
	// Warnings are complete sentences, also about what is not in Env.
	Warnings []string
}

// plan says how a command is executed.
func (c *Config) plan(ctx context.Context, cmd corral.Command) (Plan, error) {
	var warnings []string
	login := ""
	if c.LoginPath != nil {
		var err error
		if login, err = c.LoginPath(ctx); err != nil {
			warnings = append(warnings, "The login shell's PATH could not be found out and is left out: "+err.Error()+".")
		}
	}
	rules := c.rules(ctx)
	env, err := pathenv.Gateway(pathenv.GatewayOptions{
		Inherited: c.Environ, Call: cmd.Env,
		PathPrepend: append(append([]string(nil), cmd.PathPrepend...), c.PathPrepend...),
		LoginPath:   login, EnvPath: rules.EnvPath, Keep: rules.Keep, Profile: c.Profile, TTY: cmd.TTY != nil,
	})
	if err != nil {
		return Plan{}, err
	}
	args := cmd.Args
	switch {
	case len(cmd.Exec) > 0:
		args = cmd.Exec
	case len(args) == 0:
		path, _ := env.Lookup("PATH")
		args = append(pathenv.Shell(pathenv.ShellOptions{Getenv: c.getenv, Path: path, Profile: c.Profile}), cmd.Shell)
	}
	dir := cmd.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Workspace, dir)
	}
	return Plan{Args: args, Env: env, Dir: dir, Warnings: append(warnings, env.Warnings()...)}, nil
}

// prepare turns a command into what the warden executes.
func (c *Config) prepare(ctx context.Context, cmd corral.Command) (wardenexec.Prepared, error) {
	p, err := c.plan(ctx, cmd)
	return wardenexec.Prepared{Args: p.Args, Env: p.Env.Vars, Dir: p.Dir, Warnings: p.Warnings}, err
}

func (c *Config) getenv(name string) string {
	value := ""
	for _, kv := range c.Environ {
		if len(kv) > len(name) && kv[:len(name)] == name && kv[len(name)] == '=' {
			value = kv[len(name)+1:]
		}
	}
	return value
}

// complete fills in defaults.
func (c *Config) complete() error {
	if c.StateDir == "" {
		return corral.Errorf(corral.ErrInvalid, "give a directory of your own", "no state directory is given")
	}
	var err error
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return err
	}
	if c.Workspace == "" {
		if c.Workspace, err = os.Getwd(); err != nil {
			return corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot find the working directory: %w", err)
		}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
