package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cli/approvals"
	"github.com/corral-exec/corral/internal/cli/nodes"
	"github.com/corral-exec/corral/internal/cli/sandboxes"
	"github.com/corral-exec/corral/internal/cli/serve"
	"github.com/corral-exec/corral/internal/cli/sessions"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/pathenv"
)

// Main runs corral with this process's arguments and streams, and returns its
// exit code.
func Main(version string) int {
	a := &app.App{
		Version: version,
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Backends: daemon.RealBackends(), Engines: doctor.TryEngines,
		CollectAsUsual: app.CollectLate(),
	}
	return commands{a}.run(context.Background(), os.Args[1:])
}

// commands are those that are in this package, with what all share.
type commands struct{ *app.App }

// A program is corral with one command line.
type program struct {
	commands
	helpErr error // of help, which cobra has no way to return
	misread bool  // the command line's flags are not understood, so that --json may not be among them
}

func (a commands) run(ctx context.Context, args []string) int {
	p := &program{commands: a}
	root := p.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		cmdline.PlainUsages(root)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = p.helpErr
	}
	if !p.misread && app.WantsJSON(cmd.Flags()) && app.Said(err) {
		err = a.PrintJSON(app.NewFailure(err), err)
	}
	a.Report(err)
	return app.ExitCode(err)
}

func (p *program) root() *cobra.Command {
	a := p.commands
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
			return app.OnlyCommands(cmd, args)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.Flags = cmd.Flags()
			return a.ReadEnvironment(a.Flags)
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.Flags().BoolVar(&version, "version", false, "the same as corral version")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		p.misread = true
		return flagError(cmd, err)
	})
	root.SetHelpFunc(p.help)
	root.SetUsageFunc(func(cmd *cobra.Command) error { p.help(cmd, nil); return nil })
	root.PersistentFlags().BoolP("help", "h", false, "say what a command is for")
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "say nothing but failures: no warnings, no progress")
	root.PersistentFlags().StringVar(&a.StateFlag, "state-dir", "", "`DIR`: where Corral keeps what it has on disk (default "+pathenv.StateDir(a.Getenv, "corral")+")")
	app.FromEnvironment(root.PersistentFlags(), "state-dir")
	cmdline.Must(root.MarkPersistentFlagDirname("state-dir"))
	root.PersistentFlags().StringVar(&a.ConfigFlag, "config", "", "`FILE`: the configuration (default "+a.DefaultConfig()+")")
	app.FromEnvironment(root.PersistentFlags(), "config")
	cmdline.Must(root.MarkPersistentFlagFilename("config", "json5", "json"))

	root.AddCommand(a.execCommand(), a.explainCommand(), a.consoleCommand(), a.keysCommand(), a.loginCommand(), a.contextCommand(),
		a.imagesCommand(), a.initCommand(), a.configCommand(), a.doctorCommand(), a.versionCommand(), a.wardenCommand(),
		approvals.Command(a.App), nodes.Command(a.App), sandboxes.Command(a.App, a.sandboxShell()))
	root.AddCommand(serve.Commands(a.App)...)
	root.AddCommand(sessions.Commands(a.App)...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Short = "Write a script by which a shell completes corral's commands"
			c.Args, c.RunE = cobra.ArbitraryArgs, app.OnlyCommands
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
	return app.OnlyCommands(on, rest)
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
func (p *program) help(cmd *cobra.Command, _ []string) {
	if rest := cmd.Flags().Args(); len(rest) > 0 && cmd.HasSubCommands() && cmd.Name() != "help" {
		p.helpErr = app.OnlyCommands(cmd, rest) // corral foo --help
		return
	}
	w := &bytes.Buffer{}
	cmdline.WriteHelp(w, cmd, cmdline.Width(p.Stdout))
	if _, err := cmd.OutOrStdout().Write(w.Bytes()); err != nil {
		p.helpErr = fmt.Errorf("cannot write the help: %w", err)
	}
}
