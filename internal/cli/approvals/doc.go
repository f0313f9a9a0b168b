// Package approvals has the commands by which a person answers for commands of agents:
// corral approvals.
package approvals

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
)

type commands struct{ *app.App }

// Command is corral approvals.
func Command(a *app.App) *cobra.Command { return commands{a}.all() }
