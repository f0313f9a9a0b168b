package cli

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/warden"
)

func (a *app) wardenCommand() *cobra.Command {
	cmd := wardenShell()
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if code := warden.Main(args, a.stderr); code != 0 {
			return &exitError{code, ""}
		}
		return nil
	}
	return cmd
}
