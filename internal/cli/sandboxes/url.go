package sandboxes

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
)

func (a commands) url() *cobra.Command {
	var token bool
	cmd := &cobra.Command{
		Use: "url [flags] NAME PORT", Short: "Print the address of a port inside a sandbox",
		Long: `Print the address by which browsers and other programs reach a port inside a
sandbox, if the gateway has a domain for ports (gateway.domain). Each port of each
sandbox has a host name, and so an origin, of its own.

With --token it is one to open in a browser, which reaches the port from then on.
It has a secret after the #, which opens all ports of the sandbox. Programs send a
key, or the token that --json prints.`,
		Example: `  corral sandbox url main 8000
  corral sandbox url --token main 8000`,
		Args: cmdline.Exactly("NAME", "PORT"), ValidArgsFunction: app.First(a.CompleteKnownSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := ports.Number(args[1])
			if err != nil {
				return err
			}
			return a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				got, err := c.SandboxAddress(ctx, args[0], port)
				switch {
				case err != nil:
					return err
				case a.JSON():
					return a.PrintJSON(got, nil)
				case token:
					return a.PrintLine(got.Open)
				}
				return a.PrintLine(got.URL)
			})
		},
	}
	cmd.Flags().BoolVar(&token, "token", false, "with the sandbox's token, for a browser")
	return app.WithJSON(cmd)
}
