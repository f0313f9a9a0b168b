package app

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
)

// groupSandbox is the heading of their flags in the help.
const groupSandbox = "Sandbox"

// AddSandboxFlags defines the flags that say what a sandbox is like, and which
// one it is.
func (a *App) AddSandboxFlags(cmd *cobra.Command) {
	a.AddSandboxesFlags(cmd)
	s, f := &a.Settings, cmd.Flags()
	f.StringVar(&s.Name, "name", "", "`NAME`: which sandbox; each name is a container of its own (default default)")
	f.BoolVar(&s.Ephemeral, "ephemeral", false, "use a container of its own, and remove it afterwards")
	FromEnvironment(f, "name")
	cmdline.Group(f, groupSandbox, "name", "ephemeral")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("name", a.CompleteSandboxes))
}

// AddSandboxesFlags defines the flags that say what every sandbox is like.
func (a *App) AddSandboxesFlags(cmd *cobra.Command) {
	s, f := &a.Settings, cmd.Flags()
	s.Mode = daemon.ModeOff
	cmdline.AddChoice(cmd, &s.Mode, "sandbox", "whether there is a sandbox", daemon.ModeOff, daemon.ModeAll, daemon.ModeRequired)
	f.StringVar(&s.Image, "image", "", "`IMAGE`: what it runs on (default "+images.Default+")")
	a.AddEngineFlag(cmd, f)
	f.StringVar(&s.Runtime, "runtime", "", "`NAME`: OCI runtime, such as runsc (default the engine's)")
	cmdline.AddChoice(cmd, &s.Driver, "driver", "how commands are started in it (default auto)", "auto", "fds", "frames", "exec")
	f.StringVar(&s.Workspace.Dir, "workspace", "", "`DIR`: what to work on (default nothing in a sandbox, the current directory on the gateway)")
	cmdline.AddChoice(cmd, &s.Workspace.Access, "workspace-access", "what a sandbox may do with it (default none, or rw with --workspace)", "none", "ro", "rw")
	f.StringVar(&s.Isolation.User, "user", "", "`UID:GID`: who commands run as in it, never root (default the owner of the workspace; see docs/reference/cli.md)")
	f.Var(cmdline.Size{Bytes: &s.Resources.Memory, Unlimited: true}, "memory", "`SIZE`: memory it may use, such as 512m, or unlimited (default 2g)")
	f.Var(cmdline.Count[float64]{N: &s.Resources.CPUs}, "cpus", "`N`: processors it may use, such as 0.5, or unlimited (default 2, but at most half of those of the engine's machine)")
	f.Var(cmdline.Count[int64]{N: &s.Resources.Pids}, "pids", "`N`: processes it may have, or unlimited (default 512)")
	FromEnvironment(f, "sandbox", "image", "runtime", "driver", "workspace", "workspace-access", "user", "memory", "cpus", "pids")
	cmdline.Group(f, groupSandbox, "sandbox", "image", "engine", "runtime", "driver", "workspace", "workspace-access", "user", "memory", "cpus", "pids")

	cmdline.Must(cmd.RegisterFlagCompletionFunc("image", a.CompleteImages))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("runtime", a.completeRuntimes))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("user", a.completeUser))
	cmdline.Must(cmd.MarkFlagDirname("workspace"))
}

// SandboxOnly are the flags that mean nothing without a sandbox.
var SandboxOnly = []string{"image", "engine", "runtime", "driver", "workspace-access", "user", "memory", "cpus", "pids", "name", "ephemeral"}

// TurnSandboxOn is for a command that is sent to the sandbox. It sets the flag, because
// what is configured counts only where no flag is given: sandbox.mode "off" does not have
// the command run outside.
func (a *App) TurnSandboxOn(f *pflag.FlagSet) {
	if a.Settings.Mode == daemon.ModeOff && !f.Changed("sandbox") {
		cmdline.Must(f.Set("sandbox", daemon.ModeAll))
	}
}

// OnlyGiven are those of the flags that are on the command line. What a variable
// sets is for whichever commands it fits.
func OnlyGiven(f *pflag.FlagSet, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !f.Changed(name) })
}

// FromEnvironment lets CORRAL_NAME set the flag --name when it is left out.
func FromEnvironment(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		variable := "CORRAL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		cmdline.Must(f.SetAnnotation(name, cmdline.EnvAnnotation, []string{variable}))
	}
}

// ReadEnvironment sets the flags that were left out. They do not count as
// given (pflag's Changed).
func (a *App) ReadEnvironment(f *pflag.FlagSet) error {
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		variable := flag.Annotations[cmdline.EnvAnnotation]
		if err != nil || flag.Changed || len(variable) == 0 {
			return
		}
		if value := a.Getenv(variable[0]); value != "" {
			if serr := flag.Value.Set(value); serr != nil {
				err = corral.Errorf(corral.ErrInvalid, "correct or unset it", "the environment variable %s=%q is not valid: %w", variable[0], value, serr)
			}
		}
	})
	return err
}

// StateDir is where Corral keeps what it has on disk.
func (a *App) StateDir() (string, error) {
	return daemon.StateDir(a.StateFlag, "give --state-dir or set CORRAL_STATE_DIR", a.Getenv)
}

// AddLocalFlag defines --local.
func AddLocalFlag(cmd *cobra.Command, local *bool) {
	cmd.Flags().BoolVar(local, "local", false, "leave a gateway that runs alone")
}

// SandboxShape are the flags that describe a sandbox.
var SandboxShape = append([]string{"sandbox", "workspace"}, slices.DeleteFunc(slices.Clone(SandboxOnly), func(name string) bool {
	return name == "name" || name == "ephemeral"
})...)

// DefaultTimeout is that of commands.
const DefaultTimeout = 30 * time.Minute
