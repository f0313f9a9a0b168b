package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

// initResult is what corral init --json prints.
type initResult struct {
	File    string `json:"file"`
	Sandbox string `json:"sandbox"` // sandbox.mode that was written
	Why     string `json:"why"`     // one line
	Next    string `json:"next"`    // one line
}

func (a commands) initCommand() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "init [flags]", Short: "Write a first configuration",
		Long: `Write a first configuration, with comments and strict settings: commands run in
the sandbox, or on this machine after an approval, and nothing that is meant for
the sandbox runs outside of it.

The sandbox is turned on if a container engine answers. A configuration that is
there stays as it is.`,
		Example: `  corral init
  corral init --config ./corral.json5`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := a.WritableConfig()
			if err != nil {
				return err
			}
			r := a.initial(cmd.Context(), file)
			if _, err := config.Create(file, []byte(config.First(r.Sandbox))); err != nil {
				return err
			}
			return a.Answer(r, nil, func() string {
				return fmt.Sprintf("Wrote %s.\nSandbox: %s, since %s.\nNext: %s", r.File, r.Sandbox, r.Why, r.Next)
			})
		},
	})
}

// initial decides on a first configuration.
func (a commands) initial(ctx context.Context, file string) initResult {
	var facts doctor.EngineFacts
	err := a.WithEngine(ctx, func(ctx context.Context, eng daemon.Engine) (err error) {
		ctx, cancel := context.WithTimeout(ctx, doctor.AskLimit)
		defer cancel()
		facts, err = eng.Facts(ctx)
		return err
	})
	if err != nil {
		return initResult{
			File: file, Sandbox: daemon.ModeOff, Why: "no container engine answers: " + app.InFlags(err.Error()),
			Next: "start an engine (corral doctor helps), then: corral config set sandbox.mode all",
		}
	}
	return initResult{
		File: file, Sandbox: daemon.ModeAll, Why: fmt.Sprintf("%s %s answers at %s", facts.Name, facts.Version, facts.Address),
		Next: "corral exec --host sandbox 'echo hello', or corral gateway",
	}
}
