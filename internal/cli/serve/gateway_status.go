package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

func (a commands) gatewayStatus() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "status [flags]", Short: "Say whether a gateway runs, and how it is",
		Long: `Say whether a gateway runs with the state directory, or where CORRAL_URL says, and
how it is.

Exit code: 0 if it takes commands, 1 if it does not.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				p, err := a.Place()
				if err != nil {
					return err
				}
				s, err := p.Ask(ctx)
				if err != nil {
					return err
				}
				s.Error, s.Hint = app.InFlags(s.Error), app.InFlags(s.Hint)
				if a.Getenv(reach.EnvURL) == "" { // else the state directory may be another gateway's
					if s.Damaged, err = journal.Aside(s.StateDir); err != nil {
						a.Warn(fmt.Sprintf("It is not known whether damaged state is kept aside in %s: %v.", s.StateDir, err))
					}
				}
				var end error
				if !s.Ready {
					end = &app.ExitError{Code: app.ExitFindings}
				}
				if a.JSON() {
					return a.PrintJSON(s, end)
				}
				return cmp.Or(a.printState(s), end)
			})
		},
	})
}

func (a commands) printState(s reach.State) error {
	if !s.Running {
		what, hint := "No gateway is running with the state directory "+s.StateDir+".", "To start one: corral gateway"
		switch {
		case s.Lone():
			what, hint = strings.ToUpper(s.Error[:1])+s.Error[1:]+".", "hint: "+s.Hint
		case s.Error != "":
			what, hint = "The gateway does not answer: "+s.Error+".", "hint: "+s.Hint
		}
		if len(s.Damaged) > 0 {
			hint += "\nDamaged state is kept aside in " + doctor.AsideText(s.Damaged) + ": " + doctor.DamagedFix + "."
		}
		_, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", what, hint)
		return err
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	state := "running"
	if !s.Ready {
		state = "running, not ready: " + s.Error
	}
	fmt.Fprintf(w, "state\t%s\n", state)
	if r := s.Gateway; r != nil {
		fmt.Fprintf(w, "pid\t%d\n", r.PID)
		fmt.Fprintf(w, "version\t%s\n", r.Version)
		fmt.Fprintf(w, "up\t%s\n", words.Age(time.Since(r.StartedAt)))
		fmt.Fprintf(w, "listens\t%s\n", strings.Join(append([]string{r.Socket}, r.Listen...), ", "))
		fmt.Fprintf(w, "sandbox\t%s\n", r.Sandbox)
		if r.Sandbox != daemon.ModeOff {
			fmt.Fprintf(w, "image\t%s\n", r.Image)
		}
		fmt.Fprintf(w, "workspace\t%s\n", cmp.Or(s.Workspace, r.Workspace, "none"))
	}
	switch {
	case s.Nodes != nil:
		fmt.Fprintf(w, "nodes\t%s: %s\n", strings.Join(s.Nodes.Listen, ", "), s.Nodes)
	case s.Gateway != nil && len(s.Gateway.Nodes) == 0:
		fmt.Fprint(w, "nodes\toff\n")
	}
	if len(s.Damaged) > 0 {
		fmt.Fprintf(w, "damaged\t%s: %s\n", doctor.AsideText(s.Damaged), doctor.DamagedFix)
	}
	if s.Hint != "" {
		fmt.Fprintf(w, "hint\t%s\n", s.Hint)
	}
	if s.Sessions == nil { // it did not say
		return w.Flush()
	}
	fmt.Fprintf(w, "sessions\t%d running, %d ended", s.Sessions[session.Running], s.Sessions[session.Completed]+s.Sessions[session.Failed])
	if n := s.Sessions[session.Unknown]; n > 0 {
		fmt.Fprintf(w, ", %d unknown", n)
	}
	if s.Agents > 1 {
		fmt.Fprintf(w, ", of %d agents", s.Agents)
	}
	fmt.Fprintln(w)
	return w.Flush()
}
