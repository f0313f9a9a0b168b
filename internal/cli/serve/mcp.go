package serve

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/tool/mcp"
	"github.com/corral-exec/corral/tool/remote"
)

const mcpLong = `Serve the tools of an agent (exec, process and those that are configured) over the
Model Context Protocol, on standard input and output, for clients that start
their servers themselves.

If a gateway runs, it runs the commands, as it was told to: they and their
sessions outlive this process and restarts of the gateway, and are seen by
all clients. If none runs, this process is the gateway of the state
directory while it lives, without a socket; what it leaves running is found
by the next.`

func (a commands) mcpCommand() *cobra.Command {
	var agent, model string
	o := &gatewayFlags{}
	cmd := &cobra.Command{
		Use: "mcp [flags]", Short: "Serve the tools over MCP on standard input and output",
		Long: mcpLong, Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.Stays()
			given := app.OnlyGiven(cmd.Flags(), gatewayOnly(cmd))
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				return a.serveMCP(ctx, agent, model, o, given)
			})
		},
	}
	a.AddAgentFlag(cmd, &agent)
	cmd.Flags().StringVar(&model, "model", "", "`NAME`: that the client uses, such as openai/gpt-5.2; some tools are for some models")
	app.FromEnvironment(cmd.Flags(), "model")
	cmdline.Group(cmd.Flags(), groupServe, "agent", "model")
	a.addGatewayFlags(cmd, o)
	for _, name := range []string{"listen", "nodes", "nodes-websocket", "nodes-advertise"} {
		cmdline.Must(cmd.Flags().MarkHidden(name))
	}
	o.quietly = true
	return cmd
}

// gatewayOnly are the flags that say how a gateway works.
func gatewayOnly(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cmdline.GroupAnnotation]) > 0 && f.Name != "agent" && f.Name != "model" && !strings.HasPrefix(f.Name, "log-") {
			names = append(names, f.Name)
		}
	})
	return names
}

// serveMCP serves one client, until it closes its end or ctx ends.
func (a commands) serveMCP(ctx context.Context, agent, model string, o *gatewayFlags, given []string) (err error) {
	if o.listen != "" || slices.ContainsFunc(given, func(flag string) bool { return strings.HasPrefix(flag, "nodes") }) {
		return corral.Errorf(corral.ErrInvalid, "use corral gateway --listen, or --nodes", "corral mcp listens nowhere")
	}
	c, err := a.Connect(agent)
	if err == nil {
		defer func() { err = errors.Join(err, c.Close()) }()
		if len(given) > 0 {
			return corral.Errorf(corral.ErrInvalid, "leave it out, or give it to the gateway", "--%s is for the gateway, and one runs already", given[0])
		}
		log := a.logger(&o.loggerFlags)
		tools, err := remote.New(ctx, c, model, log)
		if err != nil {
			return err
		}
		server := mcp.New(mcp.Config{Tools: tools, Version: daemon.Version(a.Version).Version, Log: log})
		return a.serveStreams(ctx, server)
	}
	if !errors.Is(err, reach.ErrNoGateway) {
		return err
	}
	if err := a.checkGateway(o); err != nil {
		return err
	}
	opt, err := a.gatewayOptions(o)
	if err != nil {
		return err
	}
	opt.Alone = true
	g, err := daemon.OpenGateway(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return a.serveStreams(ctx, g.MCP(agent, model))
}

func (a commands) serveStreams(ctx context.Context, server *mcp.Server) error {
	err := server.Serve(ctx, a.Stdin, a.Stdout)
	if ctx.Err() != nil {
		return nil // that is how it ends
	}
	return errors.Join(err, server.Close())
}
