// Package sessions has the commands for what runs in the background: corral ps, attach,
// logs, wait, kill, process, session and events.
package sessions

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
)

type commands struct{ *app.App }

// Commands are those of this package.
func Commands(in *app.App) []*cobra.Command {
	a := commands{in}
	return []*cobra.Command{
		a.psCommand(), a.attachCommand(), a.logsCommand(), a.waitCommand(), a.killCommand(), a.eventsCommand(), a.processCommand(), a.sessionCommand(),
	}
}
