package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
)

func (a commands) versionCommand() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use:   "version",
		Short: "Say which version of corral this is",
		Args:  cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion()
		},
	})
}

func (a commands) printVersion() error {
	v := daemon.Version(a.Version)
	if a.JSON() {
		return a.PrintJSON(v, nil)
	}
	_, err := fmt.Fprintf(a.Stdout, "corral %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	return err
}
