package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// statusLimit bounds how long a gateway may take to say how it is.
const statusLimit = 5 * time.Second

// gatewayState is what corral gateway status prints.
type gatewayState struct {
	Running  bool                  `json:"running"`
	Ready    bool                  `json:"ready"` // it takes commands
	StateDir string                `json:"stateDir"`
	Error    string                `json:"error,omitempty"` // why it is not ready
	Hint     string                `json:"hint,omitempty"`  // what to do about that
	Gateway  *daemon.Record        `json:"gateway,omitempty"`
	Sessions map[session.State]int `json:"sessions,omitempty"`
	Agents   int                   `json:"agents"`
	Nodes    *nodeCounts           `json:"nodes,omitempty"` // nil if it does not listen for any
	// Workspace is where commands of the agent main run that say nothing of it, as it
	// is configured now; empty: not known.
	Workspace string `json:"workspace,omitempty"`
	// Damaged are the files in which a gateway has kept what it could not read.
	Damaged []string `json:"damaged,omitempty"`
}

// lone reports whether corral mcp is the gateway, which listens nowhere.
func (s gatewayState) lone() bool { return !s.Running && s.Gateway != nil && s.Gateway.Alone() }

func (a *app) gatewayStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status [flags]", Short: "Say whether a gateway runs, and how it is",
		Long: `Say whether a gateway runs with the state directory, or where CORRAL_URL says, and
how it is.

Exit code: 0 if it takes commands, 1 if it does not.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				s, err := a.askGateway(ctx)
				if err != nil {
					return err
				}
				if a.getenv(envURL) == "" { // else the state directory may be another gateway's
					if s.Damaged, err = journal.Aside(s.StateDir); err != nil {
						a.warn(fmt.Sprintf("It is not known whether damaged state is kept aside in %s: %v.", s.StateDir, err))
					}
				}
				var end error
				if !s.Ready {
					end = &exitError{exitFindings, ""}
				}
				if asJSON {
					return a.printJSON(s, end)
				}
				if err := a.printState(s); err != nil {
					return err
				}
				return end
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// askGateway says how the gateway is. That there is none is an answer.
func (a *app) askGateway(ctx context.Context) (gatewayState, error) {
	dir, err := a.stateDir()
	if err != nil {
		return gatewayState{}, err
	}
	s := gatewayState{StateDir: dir}
	o, record, err := a.findGateway()
	if errors.Is(err, errNoGateway) {
		if s.Gateway = daemon.LoneRecord(dir); s.Gateway != nil {
			s.Error, s.Hint = words.OneLine(err.Error()), corral.Hint(err)
		}
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Gateway, o.Retry = record, -1
	c, err := client.New(o)
	if err != nil {
		return s, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	list, err := c.Sessions(ctx, true)
	s.Running = err == nil || !errors.Is(err, corral.ErrUnavailable)
	if err == nil {
		s.Sessions = map[session.State]int{}
		agents := map[string]bool{}
		for _, st := range list {
			s.Sessions[st.State]++
			agents[st.Agent] = true
		}
		s.Agents = len(agents)
		err = c.Ready(ctx)
	}
	if err == nil {
		s.Workspace = workspaceUsed(ctx, c, record)
	}
	if err == nil && (record == nil || len(record.Nodes) > 0) {
		s.Nodes, err = countNodes(ctx, c)
	}
	if s.Ready = err == nil; err != nil {
		s.Error, s.Hint = inFlags(err.Error()), inFlags(corral.Hint(err))
	}
	if errors.Is(err, corral.ErrDenied) {
		s.Gateway = nil // the token is that of another gateway, and so is the record beside it
	}
	return s, nil
}

// workspaceUsed asks the gateway where a command would run.
func workspaceUsed(ctx context.Context, c *client.Client, record *daemon.Record) string {
	r, err := c.Explain(ctx, corral.Command{Shell: ":"}, client.ExplainOptions{})
	switch {
	case err != nil || r.Route.Host == corral.HostNode:
		return ""
	case !r.Route.Sandboxed:
		return r.Cwd
	case record != nil && record.Workspace != "":
		return record.Workspace
	}
	return "a private one for each sandbox"
}

func (a *app) printState(s gatewayState) error {
	if !s.Running {
		what, hint := "No gateway is running with the state directory "+s.StateDir+".", "To start one: corral gateway"
		switch {
		case s.lone():
			what, hint = strings.ToUpper(s.Error[:1])+s.Error[1:]+".", "hint: "+s.Hint
		case s.Error != "":
			what, hint = "The gateway does not answer: "+s.Error+".", "hint: "+s.Hint
		}
		if len(s.Damaged) > 0 {
			hint += "\nDamaged state is kept aside in " + doctor.AsideText(s.Damaged) + ": " + doctor.DamagedFix + "."
		}
		_, err := fmt.Fprintf(a.stdout, "%s\n%s\n", what, hint)
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	state := "running"
	if !s.Ready {
		state = "running, not ready: " + s.Error
	}
	fmt.Fprintf(w, "state\t%s\n", state)
	if r := s.Gateway; r != nil {
		fmt.Fprintf(w, "pid\t%d\n", r.PID)
		fmt.Fprintf(w, "version\t%s\n", r.Version)
		fmt.Fprintf(w, "up\t%s\n", ageText(time.Since(r.StartedAt)))
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
