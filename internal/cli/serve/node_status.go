package serve

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/node"
	"github.com/corral-exec/corral/internal/inspect"
	"github.com/corral-exec/corral/internal/words"
)

// nodeState is what corral node status prints.
type nodeState struct {
	node.Report
	StateDir string              `json:"stateDir"` // the node's part of it
	Policy   *inspect.NodePolicy `json:"policy,omitempty"`
}

func (a commands) nodeStatus() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "status [flags]", Short: "Say whether this machine is a node, and how it is",
		Long: `Say whether a node runs with the state directory, and how it is: whether it is
connected to its gateway, whether it has to be approved, and by what it
decides on commands: that is of the agent main, by the files as they are now.

Exit code: 0 if it takes commands, 1 if it does not.`,
		Args: cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m, err := a.Machine()
			if err != nil {
				return err
			}
			dir := filepath.Join(m.StateDir, daemon.NodeDir)
			r, err := node.Look(dir)
			if err != nil {
				return err
			}
			policy := m.NodePolicy(r)
			var end error
			if !r.Ready {
				end = &app.ExitError{Code: app.ExitFindings}
			}
			if a.JSON() {
				return a.PrintJSON(nodeState{r, dir, policy}, end)
			}
			return cmp.Or(a.printNode(r, dir, policy), end)
		},
	})
}

func (a commands) printNode(r node.Report, dir string, policy *inspect.NodePolicy) error {
	if !r.Running && r.Gateway == "" {
		return a.PrintLine("This machine is no node: nothing is in " + dir + ".\nTo make it one, run here what corral nodes join prints on the gateway: corral node --gateway LINE")
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	p := r.Process
	switch {
	case !r.Running:
		fmt.Fprint(w, "state\tnot running\n")
	case p == nil:
		fmt.Fprint(w, "state\tstarting\n")
	default:
		fmt.Fprintf(w, "state\t%s\n", p.Status)
		fmt.Fprintf(w, "since\t%s\n", cmdline.WhenText(p.Since, time.Now()))
	}
	switch {
	case r.Name != "" && r.Asked != "" && !strings.EqualFold(r.Name, r.Asked):
		fmt.Fprintf(w, "name\t%s, and not %s, as it asked to be called\n", r.Name, app.Brief(r.Asked, app.MostOfCommand))
	case r.Name != "":
		fmt.Fprintf(w, "name\t%s\n", r.Name)
	}
	fmt.Fprintf(w, "node\t%s\n", r.Node)
	if r.Key != "" {
		fmt.Fprintf(w, "key\t%s\n", r.Key)
	}
	gateway := r.Gateway
	if l, err := join.ParseLine(r.Gateway); err == nil {
		gateway = strings.Join(l.Hosts, ", ")
	}
	fmt.Fprintf(w, "gateway\t%s\n", gateway)
	switch {
	case r.Paired:
		fmt.Fprintf(w, "paired\t%s\n", cmdline.WhenText(r.PairedAt, time.Now()))
	case !r.EndedAt.IsZero():
		fmt.Fprintf(w, "paired\tno more, since %s\n", cmdline.WhenText(r.EndedAt, time.Now()))
	default:
		fmt.Fprint(w, "paired\tno\n")
	}
	printNodePolicy(w, policy)
	hint := ""
	if p != nil {
		fmt.Fprintf(w, "pid\t%d\nversion\t%s\nup\t%s\n", p.PID, p.Version, words.Age(time.Since(p.StartedAt)))
		hint = p.Hint
		if p.Code != "" {
			hint = "on the gateway: corral nodes approve " + p.Code
		}
	} else if !r.Running {
		hint = "start it: corral node"
	}
	if hint != "" {
		fmt.Fprintf(w, "hint\t%s\n", hint)
	}
	return w.Flush()
}

// printNodePolicy writes the rows of the policy.
func printNodePolicy(w io.Writer, p *inspect.NodePolicy) {
	if p == nil {
		return
	}
	if p.Error != "" {
		fmt.Fprintf(w, "policy\tnothing may run: %s\n", app.Visible(p.Error))
	}
	if p.Security.Value != "" {
		fmt.Fprintf(w, "security\t%s  (%s)\nask\t%s  (%s)\n", p.Security.Value, app.SourceText(p.Security.Source), p.Ask.Value, app.SourceText(p.Ask.Source))
		by := "asked for at the gateway"
		if p.Approver == config.ApproverLocal {
			by = "asked for here (corral node approvals)"
		}
		fmt.Fprintf(w, "approvals\t%s; remembered in %s\nrules\t%d\n", by, p.Approvals, p.Rules)
		fmt.Fprintf(w, "directories\t%s\n", cmp.Or(strings.Join(p.Directories, ", "), "any"))
	}
	sandbox := map[string]string{
		daemon.ModeOff: "off", daemon.ModeAll: "all: commands run in a container of their agent's, where none of that is asked",
		daemon.ModeRequired: "required: commands run in a container of their agent's, where none of that is asked, and none leaves it",
	}[p.Sandbox]
	fmt.Fprintf(w, "sandbox\t%s\nconfig\t%s\n", sandbox, cmp.Or(p.Config, "none"))
}
