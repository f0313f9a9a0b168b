package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
)

// Main runs corral with this process's arguments and streams, and returns its
// exit code.
func Main(version string) int {
	a := &app{
		version: version,
		stdin:   os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), backends: realBackends(),
	}
	return a.run(context.Background(), os.Args[1:])
}

// An app is one run of the program.
type app struct {
	version        string
	stdin          *os.File
	stdout, stderr io.Writer
	environ        []string
	backends       backends

	settings settings // after the command line and the environment were read
	quiet    bool
	kept     *[]string // where warnings go instead of standard error; nil: nowhere
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	a.report(err)
	return exitCode(err)
}

// report says what went wrong, unless that is all in the exit code.
func (a *app) report(err error) {
	if err == nil || err.Error() == "" || brokenPipe(err) {
		return
	}
	fmt.Fprintln(a.stderr, "corral:", inFlags(err.Error()))
	if hint := corral.Hint(err); hint != "" {
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

// getenv is the last value of a variable in the environment of this run.
func (a *app) getenv(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

func (a *app) lookupEnv(name string) (value string, found bool) {
	for _, kv := range a.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value, found = v, true
		}
	}
	return value, found
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "corral",
		Short: "Run commands in a sandbox, on this machine or on another",
		Long: `Corral runs the shell commands of AI agents, and yours: in a hardened container
(host sandbox), on this machine (host gateway) or on a paired remote machine
(host node). No node can be paired with this version yet.`,
		Example: `  corral exec --host sandbox 'python3 -c "print(6*7)"'
  corral exec --timeout 10 'git log --oneline | head -3'
  corral doctor`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          onlyCommands,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.readEnvironment(cmd.Flags())
		},
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(a.help)
	root.SetUsageFunc(func(cmd *cobra.Command) error { a.help(cmd, nil); return nil })
	root.PersistentFlags().BoolP("help", "h", false, "say what a command is for")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "say nothing but failures: no warnings, no progress")
	root.PersistentFlags().StringVar(&a.settings.StateDir, "state-dir", "", "`DIR`: where Corral keeps what it has on disk (default "+a.defaultStateDir()+")")
	fromEnvironment(root.PersistentFlags(), "state-dir")
	must(root.MarkPersistentFlagDirname("state-dir"))

	root.AddCommand(a.execCommand(), a.sandboxCommand(), a.imagesCommand(), a.doctorCommand(), a.versionCommand(), a.wardenCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Short = "Write a script by which a shell completes corral's commands"
		case "help":
			c.Short = "Say what a command is for"
		}
	}
	for _, c := range append(root.Commands(), root) {
		c.SuggestionsMinimumDistance = 2
	}
	return root
}

// onlyCommands is what a command does that only has commands below it.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "did you mean " + cmd.CommandPath() + " " + like[0] + "?"
	}
	return corral.Errorf(corral.ErrInvalid, hint, "%s has no command %q", cmd.CommandPath(), args[0])
}

func flagError(cmd *cobra.Command, err error) error {
	return corral.Errorf(corral.ErrInvalid, hintFor(err, "see "+cmd.CommandPath()+" --help"), "%w", err)
}

func hintFor(err error, otherwise string) string {
	if hint := corral.Hint(err); hint != "" {
		return hint
	}
	return otherwise
}

// must is for what can only fail by a mistake in this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
