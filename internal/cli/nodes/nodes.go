package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cli/sandboxes"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
)

const nodesLong = `Pair machines with the gateway, and say what there is to know about them. What
has host node runs there.

The gateway listens for them if it is started with --nodes ADDRESS:PORT. On the
machine, run the line that join prints; it shows a code. Where pending shows the
same code, it is the same machine: approve it. A machine that nobody is at can
have a setup token instead.

A NODE is a name, an ID, or the beginning of an ID that no other has.`

// Command is corral nodes.
func Command(in *app.App) *cobra.Command {
	a := commands{in}
	return app.Group(&cobra.Command{
		Use: "nodes", Short: "Pair other machines and manage them", Long: nodesLong,
		Example: `  corral gateway --nodes 0.0.0.0:7422
  corral nodes join
  corral nodes pending
  corral nodes approve 7k2m-x0qd --name builder --label pool=gpu
  corral nodes ls
  corral exec --node builder 'uname -a'`,
	}, a.ls(), a.show(), a.join(), a.pending(), a.approve(), a.reject(),
		a.rename(), a.label(), sandboxes.NodesForward(a.App), a.revoke(), a.forget(), a.tokens(), a.serverConfig())
}

func (a commands) ls() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls [flags]", Short: "List the nodes",
		Long: `List the nodes, by name, and the hosts of nodes.ssh; with --all also the nodes
that were revoked. One is online if it was heard of in the last seconds; an SSH
host while there is a connection to it. With --quiet only their IDs are printed.`,
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Nodes(ctx)
			list := got.Nodes
			if !all {
				list = slices.DeleteFunc(list, func(n client.Node) bool { return n.State == client.NodeRevoked })
			}
			for _, n := range list {
				if n.Problem != "" {
					a.Warn(app.Visible(n.Name + ": " + n.Problem))
				}
			}
			return app.PrintList(a.App, list, err, func(n client.Node) string { return n.ID }, func() cmdline.Table {
				if got.Pending > 0 {
					a.Warn(fmt.Sprintf("Machines that ask to be nodes: %d (corral nodes pending).", got.Pending))
				}
				return nodeTable(list, time.Now())
			})
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were revoked")
	return app.WithJSON(cmd)
}

var nodeStyles = map[client.NodeState]cmdline.Style{client.NodeOnline: cmdline.Green, client.NodeOffline: cmdline.Yellow, client.NodeRevoked: cmdline.Dim, client.NodeUnknown: cmdline.Dim}

func nodeTable(list []client.Node, now time.Time) cmdline.Table {
	t := cmdline.Table{Headings: []string{"NAME", "ID", "KIND", "STATE", "HEARD", "ADDRESS", "SYSTEM", "VERSION", "LABELS"}}
	for _, n := range list {
		address, id := slices.Concat(n.Addresses, []string{""})[0], n.ID
		if n.Kind == client.NodeSSH {
			id = "" // its name says it all
		}
		t.Rows = append(t.Rows, []cmdline.Cell{
			{Text: n.Name}, {Text: id}, {Text: string(n.Kind)}, {Text: string(n.State), Style: nodeStyles[n.State]}, {Text: agedText(n.Heard, now)}, {Text: address},
			{Text: app.SystemText(n.OS, n.Arch)}, {Text: app.Visible(n.Version)}, {Text: labelsText(n.Labels)},
		})
	}
	return t
}

// agedText is how long ago something was; empty if it never was.
func agedText(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return words.Age(now.Sub(t))
}

// labelsText is labels as they are written on the command line.
func labelsText(labels map[string]string) string {
	words := make([]string, 0, len(labels))
	for k, v := range labels {
		words = append(words, app.Visible(k)+"="+app.Visible(v))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (a commands) show() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "show [flags] NODE", Short: "Print all about a node",
		Args: cmdline.Exactly("name or ID of a node"), ValidArgsFunction: a.CompleteNodes(nil),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			return a.Answer(n, err, func() string { return strings.Join(describeNode(n, time.Now()), "\n") })
		}),
	})
}

// describeNode is all about a node.
func describeNode(n client.Node, now time.Time) []string {
	lines := []string{"Node " + nodeText(n)}
	add := func(what, text string) {
		if text != "" {
			lines = append(lines, fmt.Sprintf("%-10s %s", what+":", text))
		}
	}
	state := string(n.State)
	switch {
	case n.Kind == client.NodeSSH && n.State == client.NodeUnknown:
		state += "; nobody is connected to it until there is a command"
	case n.Kind == client.NodeSSH:
		state += "; connected to it by SSH"
	case n.State == client.NodeRevoked:
		state += " " + cmdline.WhenText(n.RevokedAt, now)
		if n.RevokedBy != "" {
			state += " by " + app.Visible(n.RevokedBy)
		}
	case !n.Heard.IsZero():
		state += "; heard of " + cmdline.WhenText(n.Heard, now)
	case n.State == client.NodeOffline:
		state += "; not heard of since the gateway was started"
	}
	add("Kind", string(n.Kind))
	add("State", state)
	add("Problem", app.Visible(n.Problem))
	add("Labels", labelsText(n.Labels))
	add("Addresses", app.Visible(strings.Join(n.Addresses, ", ")))
	add("Host", app.Visible(n.Host))
	add("System", app.SystemText(n.OS, n.Arch))
	add("Version", app.Visible(n.Version))
	add("Sandbox", sandboxText(n))
	add("Features", app.Visible(strings.Join(n.Features, ", ")))
	add("Key", app.Visible(n.Key))
	if n.PairedAt.IsZero() {
		return lines
	}
	paired := cmdline.WhenText(n.PairedAt, now)
	if n.ApprovedBy != "" {
		paired += " by " + app.Visible(n.ApprovedBy)
	}
	add("Paired", paired)
	return lines
}

// sandboxText is whether commands run in a sandbox on a node, as it says; empty if
// it says nothing.
func sandboxText(n client.Node) string {
	for _, f := range n.Features {
		switch mode, _ := strings.CutPrefix(f, daemon.FeatureSandbox); {
		case mode == daemon.ModeRequired:
			return "commands run in one on the node, and none leaves it"
		case mode == daemon.ModeAll:
			return "commands run in one on the node"
		}
	}
	return ""
}
