// Package nodes has the commands by which a gateway's nodes are paired and managed: corral
// nodes.
package nodes

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
)

type commands struct{ *app.App }

// Command is corral nodes.
func Command(a *app.App) *cobra.Command { return commands{a}.all() }
