package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

// An App is one run of the program.
type App struct {
	Version        string
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Environ        []string
	Backends       daemon.Backends
	Engines        func(context.Context) []doctor.EngineTried // that answer; nil: none is asked

	Flags *pflag.FlagSet // of the command

	StateFlag  string // --state-dir; empty: the default, see StateDir
	ConfigFlag string // --config; empty: the default, see ConfigFile

	Defaults config.Exec     // of commands, by the configuration
	Settings daemon.Settings // after the command line and the environment were read
	Without  string          // why a command on this machine meets no policy, where one would expect it
	Quiet    bool
	Kept     *[]string // where warnings go instead of standard error; nil: nowhere

	CollectAsUsual func() // for a command that runs for long; nil: it is so already
}

// AddJSONFlag defines --json.
func AddJSONFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print JSON") }

// WithJSON is cmd with the flag --json.
func WithJSON(cmd *cobra.Command) *cobra.Command {
	AddJSONFlag(cmd)
	return cmd
}

// JSON reports whether the command was given --json.
func (a *App) JSON() bool { return WantsJSON(a.Flags) }

func WantsJSON(flags *pflag.FlagSet) bool {
	f := flags.Lookup("json")
	return f != nil && f.Value.String() == "true"
}

// Said reports whether there is more to an error than its exit code.
func Said(err error) bool { return err != nil && err.Error() != "" && !brokenPipe(err) }

// Report says what went wrong, unless that is all in the exit code.
func (a *App) Report(err error) {
	if !Said(err) {
		return
	}
	if lines := Mistakes(err); len(lines) > 0 {
		fmt.Fprintln(a.Stderr, strings.Join(lines, "\n"))
	} else {
		fmt.Fprintln(a.Stderr, "corral:", InFlags(err.Error()))
	}
	if hint := cmp.Or(corral.Hint(err), sandboxHint(err)); hint != "" {
		fmt.Fprintln(a.Stderr, "hint:", InFlags(hint))
	}
}

// Warn tells the user about a restriction.
func (a *App) Warn(text string) {
	switch {
	case a.Kept != nil:
		*a.Kept = append(*a.Kept, InFlags(text))
	case !a.Quiet:
		fmt.Fprintln(a.Stderr, "warning:", InFlags(text))
	}
}

// WarnAll says what a process has to say of itself.
func (a *App) WarnAll(info corral.Info) {
	if a.Kept == nil && info.Notice != "" { // a result has a field for it
		a.Warn(info.Notice)
	}
	for _, w := range info.Warnings {
		a.Warn(w)
	}
}

// Getenv is the last value of a variable in the environment of this run.
func (a *App) Getenv(name string) string {
	value, _ := daemon.LookupEnv(a.Environ, name)
	return value
}

// Group makes cmd one that only has commands below it.
func Group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, OnlyCommands
	cmd.AddCommand(below...)
	return cmd
}

// RunWith is the RunE of a command that calls do with what with gives it.
func RunWith[T any](with func(context.Context, func(context.Context, T) error) error, do func(ctx context.Context, given T, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return with(cmd.Context(), func(ctx context.Context, given T) error { return do(ctx, given, args) })
	}
}

// OnlyCommands is what a command does that only has commands below it.
func OnlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := "see " + cmd.CommandPath() + " --help"
	// Two letters of a short word are most of it: then another was meant.
	like := slices.DeleteFunc(cmd.SuggestionsFor(args[0]), func(name string) bool {
		return !strings.HasPrefix(args[0], name[:1]) && len(name) < 6
	})
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, args[0]) { // other programs call it so
			like = []string{c.Name()}
		}
	}
	if len(like) > 0 {
		hint = "did you mean " + cmd.CommandPath() + " " + like[0] + "?"
	}
	return corral.Errorf(corral.ErrInvalid, hint, "%s has no command %q", cmd.CommandPath(), args[0])
}
