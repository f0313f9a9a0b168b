package cli

import (
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/escape/probes"
)

// probeCommand is what corral doctor --deep runs in a sandbox, where it puts
// this very program.
func (a *app) probeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "probe",
		Short:  "Try to get out of a sandbox; started by corral, not by people",
		Hidden: true,
		Long: `Try to get out of the sandbox that it runs in, and say what came of it. It is
started by corral doctor --deep, not by people.`,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := probes.Main(args, a.stdout, a.stderr); code != 0 {
				return &exitError{code, ""}
			}
			return nil
		},
	}
}
