package sessions

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
)

const sessionLong = `Show and set what an agent's calls go by that say nothing, in the place of its
configuration: host, security, ask and node. It is what /exec does in a chat.

It is state of the gateway, also across its restarts, and never written to the
configuration. The host's approvals file can still be stricter.`

func (a commands) sessionCommand() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "session", Short: "Show and set the defaults of an agent's calls",
		Long: sessionLong, Example: `  corral session set host=gateway ask=always
  corral session set ask=
  corral session show
  corral session reset`,
	},
		a.overridesCommand("show", "Show what is set", cmdline.NoArgs, func(ctx context.Context, c *client.Client, _ []string) (config.Overrides, error) {
			return c.Overrides(ctx)
		}),
		a.overridesCommand("set [flags] KEY=VALUE...", "Set some of it; KEY= is as configured again", cmdline.AtLeastOne("settings, such as ask=always"), setOverrides),
		a.overridesCommand("reset", "Go by the configuration again", cmdline.NoArgs, func(ctx context.Context, c *client.Client, _ []string) (config.Overrides, error) {
			return c.SetOverrides(ctx, config.Overrides{})
		}))
}

// overrideWords are what can be set.
var overrideWords = []string{
	"host=sandbox", "host=gateway", "host=node", "security=deny", "security=allowlist", "security=full",
	"ask=off", "ask=on-miss", "ask=always", "node=",
}

func (a commands) overridesCommand(use, short string, args cobra.PositionalArgs, do func(context.Context, *client.Client, []string) (config.Overrides, error)) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithClient(cmd.Context(), agent, func(ctx context.Context, c *client.Client) error {
				now, err := do(ctx, c, args)
				return a.Answer(now, err, func() string { return cmp.Or(now.String(), "Nothing is set: calls go by the configuration.") })
			})
		},
	}
	if cmd.Name() == "set" {
		cmd.ValidArgsFunction = cobra.FixedCompletions(overrideWords, app.NoFiles)
	}
	a.AddAgentFlag(cmd, &agent)
	return app.WithJSON(cmd)
}

// setOverrides changes those that are named. A change by another client between its two
// calls is lost.
func setOverrides(ctx context.Context, c *client.Client, args []string) (config.Overrides, error) {
	now, err := c.Overrides(ctx)
	if err != nil {
		return now, err
	}
	for _, arg := range args {
		changed := false
		if now, changed, err = now.Apply(arg); err != nil {
			return now, corral.Errorf(corral.ErrInvalid, "such as corral session set host=gateway security=allowlist ask=on-miss node=mac-1", "%w", err)
		}
		if !changed {
			return now, corral.Errorf(corral.ErrInvalid, "leave it out", "there is an empty argument")
		}
	}
	return c.SetOverrides(ctx, now)
}
