// Package serve has the commands that stay, and serve others: corral gateway, node, mcp and
// worker.
package serve

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
)

type commands struct{ *app.App }

// Commands are those of this package.
func Commands(in *app.App) []*cobra.Command {
	a := commands{in}
	return []*cobra.Command{a.gatewayCommand(), a.nodeCommand(), a.mcpCommand(), a.workerCommand()}
}
