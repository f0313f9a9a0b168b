package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
)

const consoleLong = `Print a link to the console: the gateway's pages for approvals, sessions,
terminals, sandboxes, nodes and keys. The link signs a browser in as the
gateway's owner. It works once, within a minute, and is as good as a key while
it does.

The gateway has to listen on TCP, as with --listen 127.0.0.1:7777. Others sign
in by a key, at /console/ of that address.`

func (a commands) consoleCommand() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "console [flags]", Short: "Print a link that opens the console in a browser", Long: consoleLong,
		Example: "  corral console\n  xdg-open \"$(corral console)\"",
		Args:    cmdline.NoArgs,
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			link, err := c.ConsoleLink(ctx)
			if err == nil && !strings.Contains(link.URL, "#link=") {
				err = corral.Errorf(corral.ErrUnavailable, "use corral and the gateway in one version", "the gateway's answer has no link")
			}
			return a.Answer(link, err, func() string { return link.URL })
		}),
	})
}
