package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
)

func (a commands) recreate() *cobra.Command {
	var all, local bool
	cmd := &cobra.Command{
		Use: "recreate [flags] NAME...", Short: "Give sandboxes a new container",
		Long: `Give sandboxes a new container, as configured now. Commands that run go on in the
old one, which is removed after the last of them; commands that begin later go to
the new one. The workspace stays; /tmp and what else was written goes with the
old container.

If a gateway runs, it does this for its sandboxes. Without one, give the flags
that commands of the sandbox are given.`,
		Example:           "  corral sandbox recreate main\n  corral sandbox recreate --all",
		ValidArgsFunction: a.CompleteKnownSandboxes,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants names, or --all", cmd.CommandPath())
			}
			shape := app.OnlyGiven(cmd.Flags(), app.SandboxShape)
			return a.KeptSandboxes(cmd.Context(), local, func(ctx context.Context, k gateway.Sandboxes, remote bool) error {
				if remote && len(shape) > 0 {
					return corral.Errorf(corral.ErrInvalid, "leave it out, or add --local for a sandbox that no gateway uses", "--%s cannot change the sandboxes of the gateway", shape[0])
				}
				if all {
					var err error
					if names, err = withContainers(ctx, k, remote); err != nil {
						return err
					}
				}
				return a.printRecreated(app.Each(names, func(name string) (api.Recreated, error) { return k.Recreate(ctx, name) }))
			})
		},
	}
	a.AddSandboxesFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all that have a container, of the gateway if one runs")
	app.AddLocalFlag(cmd, &local)
	return app.WithJSON(cmd)
}

// withContainers are the names of the sandboxes that have a container and a record;
// with own, only those that a gateway made.
func withContainers(ctx context.Context, k gateway.Sandboxes, own bool) ([]string, error) {
	list, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range list {
		if s.State != api.SandboxNone && !s.Created.IsZero() && (s.Scope != "" || !own) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

func (a commands) printRecreated(done []api.Recreated, err error) error {
	if a.JSON() {
		return a.PrintJSON(struct {
			Recreated []api.Recreated `json:"recreated"`
			app.Failure
		}{done, app.NewFailure(err)}, err)
	}
	for _, r := range done {
		if _, werr := fmt.Fprintln(a.Stdout, r.Name); werr != nil {
			return errors.Join(err, werr)
		}
		if len(r.Left) > 0 && !a.Quiet {
			fmt.Fprintf(a.Stderr, "Commands of %s go on in %s, which is removed after the last of them.\n", r.Name, strings.Join(r.Left, ", "))
		}
	}
	return err
}
