package sandboxes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/sandbox"
)

// sandboxDetails are a sandbox as corral sandbox show prints it.
type sandboxDetails struct {
	sandbox.Sandbox
	Running []string `json:"running"` // names of those of its containers that run
	Workdir string   `json:"workdir"` // where its workspace is in them
	rows    []daemon.SandboxRow
}

func (a commands) show() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "show [flags] NAME", Short: "Show a sandbox",
		Long: `Show a sandbox: whose it is, when it was used, its private
workspace and its containers. The last of those is what commands go to; the
others are left for commands that have not ended yet.`,
		Args: cmdline.Exactly("NAME"), ValidArgsFunction: a.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSandboxes(cmd.Context(), func(_ context.Context, _ daemon.Engine, dir string, rows []daemon.SandboxRow) error {
				s, err := sandbox.Find(dir, args[0])
				if err != nil {
					return err
				}
				if s.Gone() {
					return corral.Errorf(corral.ErrNotFound, "corral sandbox logs "+s.Name+" says what became of it", "the sandbox %s was removed", s.Name)
				}
				d := sandboxDetails{Sandbox: s, Running: []string{}, Workdir: sandbox.Workdir, rows: rows}
				if daemon.OfE2B(dir, s.Name) {
					d.Workdir = e2b.Home
				}
				for _, b := range s.Boxes {
					if slices.ContainsFunc(rows, func(r daemon.SandboxRow) bool { return r.Of(b) && r.Running }) {
						d.Running = append(d.Running, b.Container)
					}
				}
				if a.JSON() {
					return a.PrintJSON(d, nil)
				}
				return a.printSandbox(d)
			})
		},
	})
}

func (a commands) printSandbox(d sandboxDetails) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := func(what, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", what, app.Visible(value))
		}
	}
	line("Name:", d.Name)
	line("Agent:", d.Owner)
	line("Key:", d.Key)
	line("Created:", d.Created.Format(time.RFC3339))
	line("Used:", d.Used.Format(time.RFC3339))
	for _, l := range d.workspaces() {
		line(l[0], l[1])
	}
	for i, b := range slices.Backward(d.Boxes) {
		state := "ended"
		if n := slices.IndexFunc(d.rows, func(r daemon.SandboxRow) bool { return r.Of(b) }); n >= 0 {
			state = d.rows[n].State()
		}
		if state == api.SandboxRunning && i < len(d.Boxes)-1 {
			state = "left for its commands"
		}
		line("Container:", strings.Join([]string{b.Container, state, b.Image, string(b.Driver), "made " + b.Created.Format(time.RFC3339)}, ", "))
	}
	return w.Flush()
}

// workspaces are the lines about the workspace of the last container, and about a private
// workspace that no container has now.
func (d sandboxDetails) workspaces() (lines [][2]string) {
	at := ", at " + d.Workdir
	private := d.Workspace
	if d.Volume != "" {
		private = "the volume " + d.Volume
	}
	if private != "" {
		private += ", private"
	}
	if d.WorkspaceSize > 0 {
		private += ", at most " + words.Bytes(d.WorkspaceSize)
	}
	if n := len(d.Boxes); n > 0 && d.Boxes[n-1].Directory != "" {
		b := d.Boxes[n-1]
		lines = append(lines, [2]string{"Workspace:", b.Directory + ", " + string(b.Access) + at})
		at = ", in no container now"
	}
	if private != "" {
		lines = append(lines, [2]string{"Workspace:", private + at})
	}
	return lines
}

func (a commands) prune() *cobra.Command {
	var idle, age time.Duration
	cmd := &cobra.Command{
		Use: "prune [flags]", Short: "Remove sandboxes that were not used for long, and containers that are old",
		Long: `Remove sandboxes that were not used for long, with their private workspaces, and
containers that are old, which the next command replaces. Nothing is removed in
which a command runs, or that a program uses, such as a gateway: that does the
same by itself, as it is configured.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if idle < 0 || age < 0 {
				return corral.Errorf(corral.ErrInvalid, "use 0 for never", "a negative time means nothing")
			}
			c, err := a.Config()
			if err != nil {
				return err
			}
			f := cmd.Flags()
			return a.WithEngine(cmd.Context(), func(ctx context.Context, eng daemon.Engine) error {
				dir, err := a.StateDir()
				if err != nil {
					return err
				}
				return a.PrintRemoved(eng.Prune(ctx, dir, func(s sandbox.Sandbox) sandbox.PruneOptions {
					p := c.Agent(s.Owner).Sandbox.Prune
					o := sandbox.PruneOptions{Idle: p.IdleHours.Value, Age: p.MaxAgeDays.Value}
					if f.Changed("idle") {
						o.Idle = idle
					}
					if f.Changed("age") {
						o.Age = age
					}
					return o
				}))
			})
		},
	}
	cmd.Flags().DurationVar(&idle, "idle", 0, "`TIME`: how long a sandbox is not used until it goes, such as 24h, or 0 for never (default as configured)")
	cmd.Flags().DurationVar(&age, "age", 0, "`TIME`: how old a container gets, such as 168h, or 0 for any age (default as configured)")
	return app.WithJSON(cmd)
}
