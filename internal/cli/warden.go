package cli

import "github.com/spf13/cobra"

// wardenShell is the command without what it does, which depends on the system.
func wardenShell() *cobra.Command {
	return &cobra.Command{
		Use:    "warden",
		Short:  "Supervise commands; started by corral, not by people",
		Hidden: true,
		Long: `Supervise commands: the program corral-warden, for where only corral is installed.
It is started by corral, not by people. As in corral-warden, give either
-dir DIRECTORY (and -host for the commands of this machine) or -stdio.`,
		DisableFlagParsing: true,
	}
}
