package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/session"
)

const explainLong = `Say what would become of a command, and why. Nothing is run, and nobody is asked.

It is what the agent's call of exec with these parameters would meet: where it
would go, which settings apply and which file they are from, what allows each
program of it or why nothing does, what to change to allow it, and what
allow-always would remember. If a gateway runs it is asked, since its
configuration and its environment are what counts; without one, and with
--local, the files are read from here. What a node decides only a gateway can ask
it.

The command is written as for corral exec. Without one, --env shows what
every command is started with: each entry of PATH, each variable and where it
is from, and what is left out. Values are shown with --values only, and never
of what looks like a credential.

Exit code: 0 if it would run; 1 if it would be asked about or denied.`

const explainExample = `  corral explain --host gateway 'git push origin main | tail -3'
  corral explain --host gateway -- rm -rf build
  corral explain --agent nightly --elevated --sender telegram:123456789 make
  corral explain --env`

// explainFlags are the flags of a call.
type explainFlags struct {
	execFlags
	sender      string
	environment bool
	values      bool
}

func (a commands) explainCommand() *cobra.Command {
	o := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain [flags] 'COMMAND' | explain [flags] -- PROGRAM [ARG]...",
		Short: "Say what would become of a command, and why",
		Long:  explainLong, Example: explainExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.shape = app.OnlyGiven(cmd.Flags(), []string{"sandbox", "workspace"})
			if err := o.named(cmd.Flags()); err != nil {
				return err
			}
			return a.explain(cmd.Context(), o, args, cmd.ArgsLenAtDash() == 0)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.SortFlags = false
	a.AddAgentFlag(cmd, &o.agent)
	f.StringVar(&o.sender, "sender", "", "`PROVIDER:ID`: for whom, as in telegram:123456789; it counts for --elevated")
	f.BoolVar(&o.local, "local", false, "read the files from here, also if a gateway runs")
	cmdline.Group(f, groupGateway, "agent", "sender", "local")
	cmdline.AddChoice(cmd, &o.host, "host", "the call's host (default none)",
		string(corral.HostSandbox), string(corral.HostGateway), string(corral.HostNode))
	f.StringVar(&o.node, "node", "", "`NODE`: the call's node; means --host node")
	f.BoolVar(&o.elevated, "elevated", false, "the call asks to leave the sandbox for the gateway")
	cmdline.Group(f, groupWhere, "host", "node", "elevated")
	addPolicyFlags(cmd, &o.execFlags)
	f.StringVar(&o.workdir, "workdir", "", "`DIR`: where it would run, relative to the workspace (default the workspace)")
	f.StringArrayVarP(&o.env, "variable", "e", nil, "`NAME[=VALUE]`: set a variable, or pass on ours; may be repeated")
	f.StringArrayVar(&o.pathPrepend, "path-prepend", nil, "`DIR`: directory to put before PATH; may be repeated")
	cmdline.Group(f, groupWhat, "workdir", "variable", "path-prepend")
	f.BoolVar(&o.environment, "env", false, "show where the variables and the entries of PATH are from")
	f.BoolVar(&o.values, "values", false, "with --env, show values, but of credentials")
	f.BoolVar(&o.json, "json", false, "print JSON")
	cmdline.Group(f, groupIO, "env", "values", "json")
	a.AddSandboxesFlags(cmd)
	for _, name := range app.SandboxOnly {
		if flag := f.Lookup(name); flag != nil {
			cmdline.Must(f.MarkHidden(name))
		}
	}
	cmdline.Must(cmd.MarkFlagDirname("workdir"))
	cmdline.Must(cmd.MarkFlagDirname("path-prepend"))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("variable", a.CompleteEnv))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("node", a.CompleteNode))
	return cmd
}

// addPolicyFlags defines the flags that make the policy of a call stricter.
func addPolicyFlags(cmd *cobra.Command, o *execFlags) {
	cmdline.AddChoice(cmd, &o.security, "security", "what may run on the gateway or a node; it can only be stricter than configured",
		texts(policy.Securities)...)
	cmdline.AddChoice(cmd, &o.ask, "ask", "when it needs an approval there; it can only be stricter than configured", texts(policy.Asks)...)
	cmdline.Group(cmd.Flags(), groupWhere, "security", "ask")
}

func (a commands) explain(ctx context.Context, o *explainFlags, args []string, program bool) error {
	if o.environment && len(args) > 1 && strings.Contains(args[0], "=") {
		return corral.Errorf(corral.ErrInvalid, "write -e "+args[0], "--env shows the environment, and takes no value")
	}
	bare := len(args) == 0 && o.environment
	if bare { // any command has it
		args, program = []string{":"}, false
	}
	if o.values && !o.environment {
		return corral.Errorf(corral.ErrInvalid, "add --env, or leave it out", "--values is about the variables of --env, which are not asked for")
	}
	caller, err := config.ParseCaller(o.sender, "")
	if err != nil {
		return err
	}
	cmd, err := a.command(&o.execFlags, args, program)
	if err != nil {
		return err
	}
	if err := a.Settings.Complete(); err != nil {
		return err
	}
	cmd.Log, cmd.Host = corral.LogLimit{}, corral.Host(o.host)
	r, err := a.explained(ctx, o, caller, cmd)
	if err != nil {
		return err
	}
	var end error
	if r.Outcome != policy.Allowed && !bare {
		end = &app.ExitError{Code: app.ExitFindings}
	}
	if o.json {
		return a.PrintJSON(r, end)
	}
	look := a.Look()
	text := ""
	if !bare {
		text = look.Report(r)
	}
	if o.environment {
		if text != "" {
			text += "\n"
		}
		text += look.Environment(r)
	}
	if _, err := fmt.Fprint(a.Stdout, text); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return end
}

// explained is what a gateway says of a command, or would say.
func (a commands) explained(ctx context.Context, o *explainFlags, caller config.Caller, cmd corral.Command) (r api.Report, err error) {
	if o.local || len(o.shape) > 0 {
		return a.fromFiles(ctx, o, caller, cmd)
	}
	c, err := a.Connect(o.agent)
	if errors.Is(err, reach.ErrNoGateway) {
		return a.fromFiles(ctx, o, caller, cmd)
	}
	if err != nil {
		return r, err
	}
	err = foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		r, err = c.Explain(ctx, cmd, client.ExplainOptions{Environment: o.environment, Values: o.values, Sender: caller.Sender})
		return err
	})
	return r, errors.Join(err, c.Close())
}

// fromFiles is the report of a gateway that would be started here and now.
func (a commands) fromFiles(ctx context.Context, o *explainFlags, caller config.Caller, cmd corral.Command) (r api.Report, err error) {
	if err := session.ValidateAgent(o.agent); err != nil {
		return r, err
	}
	dir, err := a.StateDir()
	if err != nil {
		return r, err
	}
	opt, err := a.Options(slog.New(slog.DiscardHandler))
	if err != nil {
		return r, err
	}
	nodes := &unaskedNodes{local: o.local}
	r, err = daemon.Explain(config.WithCaller(ctx, caller), opt, dir, nodes, o.agent, cmd, gateway.ExplainOptions{Environment: o.environment, Values: o.values})
	if nodes.err != nil { // what is said of it would be made up
		return api.Report{}, nodes.err
	}
	r.FromFiles = true
	return r, err
}

// unaskedNodes are the nodes of a gateway that does not run.
type unaskedNodes struct {
	local bool  // --local
	err   error // of the last Decide
}

// Decide implements guard.Nodes.
func (n *unaskedNodes) Decide(_ context.Context, node, _ string, _ corral.Command) (id, name string, answer []byte, err error) {
	who, hint := "the node", "start the gateway, which asks the node: corral gateway"
	if node != "" {
		who = "node " + node
	}
	if n.local {
		hint = "leave out --local, so that the gateway asks the node"
	}
	n.err = corral.Errorf(corral.ErrUnavailable, hint, "the gateway's files have nothing against it, and %s decides as well, which cannot be asked without a gateway", who)
	return "", node, nil, n.err
}

// texts are words of a closed set.
func texts[T ~string](set []T) []string {
	list := make([]string, len(set))
	for i, w := range set {
		list[i] = string(w)
	}
	return slices.Clip(list)
}
