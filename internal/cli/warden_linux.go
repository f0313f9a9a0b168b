package cli

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/warden"
)

func (a commands) wardenCommand() *cobra.Command {
	cmd := wardenShell()
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if code := warden.Main(args, a.Stderr); code != 0 {
			return &app.ExitError{Code: code}
		}
		return nil
	}
	return cmd
}
