//go:build !linux

package cli

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
)

func (a *app) wardenCommand() *cobra.Command {
	cmd := wardenShell()
	cmd.RunE = func(*cobra.Command, []string) error {
		return corral.Errorf(errors.ErrUnsupported, "", "the warden runs on Linux only; this is %s", runtime.GOOS)
	}
	return cmd
}
