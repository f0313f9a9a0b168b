package hostexec

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
)

// Config configures an Executor. StateDir is required, except for Open.
type Config struct {
	// StateDir holds logs, records and the warden's socket. Use it with one gateway's
	// executor at a time; several executors work, too.
	StateDir string
	// Workspace is the working directory of commands that name none. Empty:
	// this process's.
	Workspace string

	// InProcess runs the supervisor in this process, for programs that run a command or
	// two: Close kills running commands, and a later life finds nothing.
	InProcess bool
	// TakeOver are the state directories of killed programs with InProcess. Their
	// commands are supervised again, so that their time-outs are enforced: by the
	// warden, or with InProcess as long as this program runs.
	TakeOver []string
	// WardenPath is the corral-warden program. Empty: $CORRAL_WARDEN if set, else the
	// program embedded in this one.
	WardenPath string

	// Node makes this machine a node of that kind: its commands get the environment of
	// pathenv.Node, and a login shell reads shell text, with PATH set after its
	// profile. Empty: this machine is a gateway.
	Node pathenv.NodeKind

	// Environ is the environment that commands inherit. Nil: this process's.
	Environ []string
	// LoginPath yields the login shell's PATH. Nil: there is none to merge.
	LoginPath func(context.Context) (string, error)
	// LoginProbe is what Open asks for LoginPath if that is nil. The Executor's Close ends
	// it, and so does an error of Open.
	LoginProbe *pathenv.LoginProbe
	// PathPrepend are directories in front of all others on PATH; a node has none.
	PathPrepend []string
	// EnvPath says how a gateway treats a PATH in a command's Env.
	EnvPath pathenv.EnvPath
	// Keep names variables that commands inherit although they look like credentials.
	Keep []string
	// Profile chooses the marker variables and the shell.
	Profile pathenv.Profile

	Log *slog.Logger
}

// plan returns how a command is executed.
func (c *Config) plan(ctx context.Context, cmd corral.Command) (pathenv.Plan, error) {
	var warnings []string
	login := ""
	if c.LoginPath != nil {
		var err error
		if login, err = c.LoginPath(ctx); err != nil {
			warnings = append(warnings, "The login shell's PATH could not be found out and is left out: "+err.Error()+".")
		}
	}
	p := pathenv.Plan{Args: cmd.Args, Dir: cmd.Dir, Workspace: c.Workspace}
	if !filepath.IsAbs(p.Dir) {
		p.Dir = filepath.Join(c.Workspace, p.Dir)
	}
	if len(cmd.Decided.Exec) > 0 {
		p.Args = cmd.Decided.Exec
	}
	var err error
	if c.Node != "" {
		var more []string
		more, err = c.planNode(ctx, cmd, login, &p)
		warnings = append(warnings, more...)
	} else {
		err = c.planGateway(ctx, cmd, login, &p)
	}
	if err != nil {
		return pathenv.Plan{}, err
	}
	notice, left := p.Env.Report()
	p.Notice, p.Warnings = notice, append(warnings, left...)
	return p, nil
}

// planGateway fills in the environment, and the shell if there are no Args.
func (c *Config) planGateway(ctx context.Context, cmd corral.Command, login string, p *pathenv.Plan) (err error) {
	rules := c.rules(ctx)
	p.Env, err = pathenv.Gateway(pathenv.GatewayOptions{
		Inherited: c.Environ, Call: cmd.Env,
		PathPrepend: append(append([]string(nil), cmd.PathPrepend...), c.PathPrepend...),
		LoginPath:   login, EnvPath: rules.EnvPath, Keep: rules.Keep, Profile: c.Profile, TTY: cmd.TTY != nil,
	})
	if err == nil && len(p.Args) == 0 {
		path, _ := p.Env.Lookup("PATH")
		p.Args = append(pathenv.Shell(pathenv.ShellOptions{Getenv: c.getenv, Path: path, Profile: c.Profile}), cmd.Shell)
	}
	return err
}

// planNode is planGateway for a node. It applies the rules of package pathenv for both
// the caller and the node, since the call arrives unchanged.
func (c *Config) planNode(ctx context.Context, cmd corral.Command, login string, p *pathenv.Plan) (warnings []string, err error) {
	call, warnings, err := pathenv.NodeRequest(pathenv.NodeRequestOptions{Call: cmd.Env, PathPrepend: cmd.PathPrepend, GOOS: runtime.GOOS})
	if err != nil {
		return nil, err
	}
	p.Env, err = pathenv.Node(pathenv.NodeOptions{
		Inherited: c.Environ, Call: call, LoginPath: login, Keep: c.rules(ctx).Keep, Kind: c.Node, Profile: c.Profile, TTY: cmd.TTY != nil,
	})
	if err == nil && len(p.Args) == 0 {
		l := p.Env.LoginShell(cmd.Shell, p.Env.PathDirs())
		p.Args, p.Env = l.Args, l.Env
	}
	return warnings, err
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
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}
