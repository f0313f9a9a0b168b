package sandboxes

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/sandbox"
)

// Command is corral sandbox; shell is corral sandbox shell.
func Command(in *app.App, shell *cobra.Command) *cobra.Command {
	a := commands{in}
	cmd := app.Group(&cobra.Command{
		Use:   "sandbox",
		Short: "List, look at and remove sandboxes",
		Long: `List, look at and remove the containers that commands run in.

A container is made when the first command needs it and stays for the next. It
belongs to the state directory that it was made with.`,
	}, a.list(), a.show(), a.prune(), a.remove(), a.sweep(), a.explain(),
		a.recreate(), a.pause(), a.resume(), a.logs(), a.stats(),
		a.sandboxForward(), a.url(), shell)
	cmd.AddCommand(a.fileCommands()...)
	a.AddEngineFlag(cmd, cmd.PersistentFlags())
	return cmd
}

func (a commands) list() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List the sandboxes of the state directory", Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withSandboxes(cmd.Context(), func(_ context.Context, _ daemon.Engine, _ string, rows []daemon.SandboxRow) error {
				if a.JSON() {
					return a.PrintJSON(rows, nil)
				}
				if a.Quiet {
					return a.PrintLines(app.NamesOf(rows), nil)
				}
				if len(rows) == 0 {
					_, err := fmt.Fprintln(a.Stderr, "There is no sandbox. corral exec --host sandbox makes one.")
					return err
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "NAME\tSTATE\tIMAGE\tDRIVER\tUSER\tCONTAINER")
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.State(), r.Image, r.Driver, r.User, r.Container)
				}
				return w.Flush()
			})
		},
	})
}

func (a commands) remove() *cobra.Command {
	var all, force bool
	cmd := &cobra.Command{
		Use: "rm [flags] NAME...", Short: "Remove sandboxes, with what runs in them",
		Long: `Remove sandboxes: the container, whatever runs in it, and its private workspace.
A directory given with --workspace is left alone.`,
		ValidArgsFunction: a.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants names, or --all", cmd.CommandPath())
			}
			return a.withSandboxes(cmd.Context(), func(ctx context.Context, eng daemon.Engine, dir string, rows []daemon.SandboxRow) error {
				if all {
					names = app.NamesOf(rows)
				}
				return a.PrintRemoved(app.Each(names, func(name string) (string, error) { return name, a.removeSandbox(ctx, eng, dir, rows, name, force) }))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all of the state directory")
	cmd.Flags().BoolVar(&force, "force", false, "also if its container is at another engine, which is gone for good: it is not removed there")
	return app.WithJSON(cmd)
}

func (a commands) removeSandbox(ctx context.Context, eng daemon.Engine, dir string, rows []daemon.SandboxRow, name string, force bool) error {
	if !slices.ContainsFunc(rows, func(r daemon.SandboxRow) bool { return r.Name == name }) {
		return corral.Errorf(corral.ErrNotFound, sandbox.WhichHint(name, app.NamesOf(rows)), "there is no sandbox %q of the state directory %s", name, dir)
	}
	if err := eng.RemoveSandbox(ctx, dir, name, force); err != nil || !daemon.OfE2B(dir, name) {
		return err
	} // a running gateway keeps a record of it as well
	return a.KeptSandboxes(ctx, false, func(ctx context.Context, k gateway.Sandboxes, _ bool) error { return k.Remove(ctx, name) })
}

func (a commands) sweep() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "sweep [flags]", Short: "Remove containers that nobody will use again",
		Long: `Remove containers that nobody will use again: ephemeral ones whose corral was
killed, and those without state. It happens by itself before a
sandbox is made.`,
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.WithEngine, func(ctx context.Context, eng daemon.Engine, _ []string) error {
			dir, err := a.StateDir()
			if err != nil {
				return err
			}
			return a.PrintRemoved(eng.Sweep(ctx, dir))
		}),
	})
}

func (a commands) withSandboxes(ctx context.Context, do func(context.Context, daemon.Engine, string, []daemon.SandboxRow) error) error {
	return a.WithEngine(ctx, func(ctx context.Context, eng daemon.Engine) error {
		p, err := a.Place()
		if err != nil {
			return err
		}
		if url := p.Elsewhere(); url != "" {
			a.Warn("Commands go to " + app.Visible(url) + "; this looks at the sandboxes of this machine alone.")
		}
		rows, err := eng.Sandboxes(ctx, p.StateDir)
		if err != nil {
			return err
		}
		return do(ctx, eng, p.StateDir, rows)
	})
}
