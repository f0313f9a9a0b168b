package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/pathenv"
)

// Main runs corral with this process's arguments and streams, and returns its
// exit code.
func Main(version string) int {
	a := &app{
		version: version,
		stdin:   os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), backends: daemon.RealBackends(), engines: doctor.TryEngines,
		collectAsUsual: collectLate(),
	}
	return a.run(context.Background(), os.Args[1:])
}

// An app is one run of the program.
type app struct {
	version        string
	stdin          *os.File
	stdout, stderr io.Writer
	environ        []string
	backends       daemon.Backends
	engines        func(context.Context) []doctor.EngineTried // that answer; nil: none is asked

	flags *pflag.FlagSet // of the command

	stateFlag  string // --state-dir; empty: the default, see stateDir
	configFlag string // --config; empty: the default, see configFile

	defaults config.Exec     // of commands, by the configuration
	settings daemon.Settings // after the command line and the environment were read
	without  string          // why a command on this machine meets no policy, where one would expect it
	helpErr  error           // of help, which cobra has no way to return
	misread  bool            // the command line's flags are not understood, so that --json may not be among them
	quiet    bool
	kept     *[]string // where warnings go instead of standard error; nil: nowhere

	collectAsUsual func() // for a command that runs for long; nil: it is so already
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		cmdline.PlainUsages(root)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = a.helpErr
	}
	if !a.misread && wantsJSON(cmd.Flags()) && said(err) {
		err = a.printJSON(newFailure(err), err)
	}
	a.report(err)
	return exitCode(err)
}

func addJSONFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print JSON") }

// withJSON is cmd with the flag --json.
func withJSON(cmd *cobra.Command) *cobra.Command {
	addJSONFlag(cmd)
	return cmd
}

// json reports whether the command was given --json.
func (a *app) json() bool { return wantsJSON(a.flags) }

func wantsJSON(flags *pflag.FlagSet) bool {
	f := flags.Lookup("json")
	return f != nil && f.Value.String() == "true"
}

// said reports whether there is more to an error than its exit code.
func said(err error) bool { return err != nil && err.Error() != "" && !brokenPipe(err) }

// report says what went wrong, unless that is all in the exit code.
func (a *app) report(err error) {
	if !said(err) {
		return
	}
	if lines := mistakes(err); len(lines) > 0 {
		fmt.Fprintln(a.stderr, strings.Join(lines, "\n"))
	} else {
		fmt.Fprintln(a.stderr, "corral:", inFlags(err.Error()))
	}
	if hint := cmp.Or(corral.Hint(err), sandboxHint(err)); hint != "" {
		fmt.Fprintln(a.stderr, "hint:", inFlags(hint))
	}
}

// warn tells the user about a restriction.
func (a *app) warn(text string) {
	switch {
	case a.kept != nil:
		*a.kept = append(*a.kept, inFlags(text))
	case !a.quiet:
		fmt.Fprintln(a.stderr, "warning:", inFlags(text))
	}
}

// warnAll says what a process has to say of itself.
func (a *app) warnAll(info corral.Info) {
	if a.kept == nil && info.Notice != "" { // a result has a field for it
		a.warn(info.Notice)
	}
	for _, w := range info.Warnings {
		a.warn(w)
	}
}

// getenv is the last value of a variable in the environment of this run.
func (a *app) getenv(name string) string {
	value, _ := daemon.LookupEnv(a.environ, name)
	return value
}

func (a *app) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "corral",
		Short: "Run commands in a sandbox, on this machine or on another",
		Long: `Corral runs the shell commands of AI agents, and yours: in a hardened container
(host sandbox), on this machine (host gateway) or on a paired remote machine
(host node).`,
		Example: `  corral exec --host sandbox 'python3 -c "print(6*7)"'
  corral exec --timeout 10 'git log --oneline | head -3'
  corral doctor`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return a.printVersion()
			}
			return onlyCommands(cmd, args)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.flags = cmd.Flags()
			return a.readEnvironment(a.flags)
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.Flags().BoolVar(&version, "version", false, "the same as corral version")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.misread = true
		return flagError(cmd, err)
	})
	root.SetHelpFunc(a.help)
	root.SetUsageFunc(func(cmd *cobra.Command) error { a.help(cmd, nil); return nil })
	root.PersistentFlags().BoolP("help", "h", false, "say what a command is for")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "say nothing but failures: no warnings, no progress")
	root.PersistentFlags().StringVar(&a.stateFlag, "state-dir", "", "`DIR`: where Corral keeps what it has on disk (default "+pathenv.StateDir(a.getenv, "corral")+")")
	fromEnvironment(root.PersistentFlags(), "state-dir")
	cmdline.Must(root.MarkPersistentFlagDirname("state-dir"))
	root.PersistentFlags().StringVar(&a.configFlag, "config", "", "`FILE`: the configuration (default "+a.defaultConfig()+")")
	fromEnvironment(root.PersistentFlags(), "config")
	cmdline.Must(root.MarkPersistentFlagFilename("config", "json5", "json"))

	root.AddCommand(a.execCommand(), a.explainCommand(), a.psCommand(), a.attachCommand(), a.logsCommand(), a.waitCommand(), a.killCommand(),
		a.eventsCommand(), a.processCommand(), a.approvalsCommand(), a.sessionCommand(),
		a.gatewayCommand(), a.consoleCommand(), a.keysCommand(), a.loginCommand(), a.contextCommand(), a.nodeCommand(), a.nodesCommand(), a.mcpCommand(), a.workerCommand(),
		a.sandboxCommand(), a.imagesCommand(), a.initCommand(), a.configCommand(), a.doctorCommand(), a.versionCommand(), a.wardenCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Short = "Write a script by which a shell completes corral's commands"
			c.Args, c.RunE = cobra.ArbitraryArgs, onlyCommands
		case "help":
			c.Short = "Say what a command is for"
			c.Run, c.RunE = nil, helpOn
		}
	}
	for _, c := range append(root.Commands(), root) {
		c.SuggestionsMinimumDistance = 2
	}
	return root
}

// helpOn is corral help COMMAND.
func helpOn(cmd *cobra.Command, args []string) error {
	on, rest, err := cmd.Root().Find(args)
	if err == nil && len(rest) == 0 {
		return on.Help()
	}
	if on == nil {
		on = cmd.Root()
	}
	if !on.HasSubCommands() {
		return corral.Errorf(corral.ErrInvalid, "see "+on.CommandPath()+" --help", "%s has no commands, and there is %q", on.CommandPath(), rest[0])
	}
	return onlyCommands(on, rest)
}

// group makes cmd one that only has commands below it.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, onlyCommands
	cmd.AddCommand(below...)
	return cmd
}

// runWith is the RunE of a command that calls do with what with gives it.
func runWith[T any](with func(context.Context, func(context.Context, T) error) error, do func(ctx context.Context, given T, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return with(cmd.Context(), func(ctx context.Context, given T) error { return do(ctx, given, args) })
	}
}

// onlyCommands is what a command does that only has commands below it.
func onlyCommands(cmd *cobra.Command, args []string) error {
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

func flagError(cmd *cobra.Command, err error) error {
	// pflag's own types say no more than what Go's parsers do.
	uses := map[string]string{"bool": "true or false, or leave out the value", "int": "a whole number", "float64": "a number"}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && uses[bad.GetFlag().Value.Type()] != "" {
		return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "--%s=%s: use %s", bad.GetFlag().Name, bad.GetValue(), uses[bad.GetFlag().Value.Type()])
	}
	return corral.Errorf(corral.ErrInvalid, cmp.Or(corral.Hint(err), "see "+cmd.CommandPath()+" --help"), "%w", err)
}

// help prints what a command is for. All of it goes to standard output, because it was
// asked for: mistakes get one line and a hint instead.
func (a *app) help(cmd *cobra.Command, _ []string) {
	if rest := cmd.Flags().Args(); len(rest) > 0 && cmd.HasSubCommands() && cmd.Name() != "help" {
		a.helpErr = onlyCommands(cmd, rest) // corral foo --help
		return
	}
	w := &bytes.Buffer{}
	cmdline.WriteHelp(w, cmd, cmdline.Width(a.stdout))
	if _, err := cmd.OutOrStdout().Write(w.Bytes()); err != nil {
		a.helpErr = fmt.Errorf("cannot write the help: %w", err)
	}
}
