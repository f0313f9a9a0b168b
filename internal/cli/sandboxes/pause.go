package sandboxes

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
)

func (a commands) pause() *cobra.Command {
	return a.freezing("pause", "Freeze what runs in sandboxes", `Freeze all that runs in sandboxes, as it is: it uses no processor until it is
resumed, by corral sandbox resume or by the next command for the sandbox. What is
in memory stays there, and the time-outs of commands go on. It stays so when the
gateway is started again.`, api.SandboxRunning, gateway.Sandboxes.Pause)
}

func (a commands) resume() *cobra.Command {
	return a.freezing("resume", "Have what runs in paused sandboxes go on", `Have what runs in sandboxes go on that were paused. One that was not goes on as
well.`, api.SandboxPaused, gateway.Sandboxes.Resume)
}

// freezing is a command that does something with sandboxes; with --all, with those in a
// state.
func (a commands) freezing(verb, short, long, state string, do func(gateway.Sandboxes, context.Context, string) error) *cobra.Command {
	var all, local bool
	cmd := &cobra.Command{
		Use: verb + " [flags] NAME...", Short: short, Long: long,
		Example: "  corral sandbox " + verb + " main", ValidArgsFunction: a.CompleteKnownSandboxes,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants names, or --all", cmd.CommandPath())
			}
			return a.KeptSandboxes(cmd.Context(), local, func(ctx context.Context, k gateway.Sandboxes, _ bool) error {
				if all {
					list, err := k.List(ctx)
					if err != nil {
						return err
					}
					for _, s := range list {
						if s.State == state {
							names = append(names, s.Name)
						}
					}
				}
				return a.printDone(app.Each(names, func(name string) (string, error) { return name, do(k, ctx, name) }))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that are "+state)
	app.AddLocalFlag(cmd, &local)
	return app.WithJSON(cmd)
}

// printDone prints the names of sandboxes with which something was done.
func (a commands) printDone(names []string, err error) error {
	if a.JSON() {
		return a.PrintJSON(struct {
			Sandboxes []string `json:"sandboxes"`
			app.Failure
		}{names, app.NewFailure(err)}, err)
	}
	return a.PrintLines(names, err)
}
