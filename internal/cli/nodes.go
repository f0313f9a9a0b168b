package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

const nodesLong = `Pair machines with the gateway, and say what there is to know about them. What
has host node runs there.

The gateway listens for them if it is started with --nodes ADDRESS:PORT. On the
machine, run the line that join prints; it shows a code. Where pending shows the
same code, it is the same machine: approve it. A machine that nobody is at can
have a setup token instead.

A NODE is a name, an ID, or the beginning of an ID that no other has.`

func (a *app) nodesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "nodes", Short: "Pair other machines and manage them", Long: nodesLong,
		Example: `  corral gateway --nodes 0.0.0.0:7422
  corral nodes join
  corral nodes pending
  corral nodes approve 7k2m-x0qd --name builder --label pool=gpu
  corral nodes ls
  corral exec --node builder 'uname -a'`,
	}, a.nodesLs(), a.nodesShow(), a.nodesJoin(), a.nodesPending(), a.nodesApprove(), a.nodesReject(),
		a.nodesRename(), a.nodesLabel(), a.nodesForward(), a.nodesRevoke(), a.nodesForget(), a.nodesTokens(), a.nodesServerConfig())
}

// withGateway calls do with a client for what is of no agent.
func (a *app) withGateway(ctx context.Context, do func(context.Context, *client.Client) error) error {
	return a.withClient(ctx, session.DefaultAgent, do)
}

func (a *app) nodesLs() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls [flags]", Short: "List the nodes",
		Long: `List the nodes, by name, and the hosts of nodes.ssh; with --all also the nodes
that were revoked. One is online if it was heard of in the last seconds; an SSH
host while there is a connection to it. With --quiet only their IDs are printed.`,
		Args: cmdline.NoArgs,
		RunE: runWith(a.withGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			got, err := c.Nodes(ctx)
			list := got.Nodes
			if !all {
				list = slices.DeleteFunc(list, func(n client.Node) bool { return n.State == client.NodeRevoked })
			}
			for _, n := range list {
				if n.Problem != "" {
					a.warn(visible(n.Name + ": " + n.Problem))
				}
			}
			return printList(a, list, err, func(n client.Node) string { return n.ID }, func() cmdline.Table {
				if got.Pending > 0 {
					a.warn(fmt.Sprintf("Machines that ask to be nodes: %d (corral nodes pending).", got.Pending))
				}
				return nodeTable(list, time.Now())
			})
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were revoked")
	return withJSON(cmd)
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
			{Text: systemText(n.OS, n.Arch)}, {Text: visible(n.Version)}, {Text: labelsText(n.Labels)},
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

func systemText(os, arch string) string { return strings.Trim(visible(os)+"/"+visible(arch), "/") }

// labelsText is labels as they are written on the command line.
func labelsText(labels map[string]string) string {
	words := make([]string, 0, len(labels))
	for k, v := range labels {
		words = append(words, visible(k)+"="+visible(v))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (a *app) nodesShow() *cobra.Command {
	return withJSON(&cobra.Command{
		Use: "show [flags] NODE", Short: "Print all about a node",
		Args: cmdline.Exactly("name or ID of a node"), ValidArgsFunction: a.completeNodes(nil),
		RunE: runWith(a.withGateway, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			return a.answer(n, err, func() string { return strings.Join(describeNode(n, time.Now()), "\n") })
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
			state += " by " + visible(n.RevokedBy)
		}
	case !n.Heard.IsZero():
		state += "; heard of " + cmdline.WhenText(n.Heard, now)
	case n.State == client.NodeOffline:
		state += "; not heard of since the gateway was started"
	}
	add("Kind", string(n.Kind))
	add("State", state)
	add("Problem", visible(n.Problem))
	add("Labels", labelsText(n.Labels))
	add("Addresses", visible(strings.Join(n.Addresses, ", ")))
	add("Host", visible(n.Host))
	add("System", systemText(n.OS, n.Arch))
	add("Version", visible(n.Version))
	add("Sandbox", sandboxText(n))
	add("Features", visible(strings.Join(n.Features, ", ")))
	add("Key", visible(n.Key))
	if n.PairedAt.IsZero() {
		return lines
	}
	paired := cmdline.WhenText(n.PairedAt, now)
	if n.ApprovedBy != "" {
		paired += " by " + visible(n.ApprovedBy)
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

// completeNodes completes the names of nodes that are wanted (nil: those that
// were not revoked), as the first argument.
func (a *app) completeNodes(wanted func(client.Node) bool) cobra.CompletionFunc {
	if wanted == nil {
		wanted = func(n client.Node) bool { return n.State != client.NodeRevoked && n.Kind != client.NodeSSH }
	}
	return first(func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.nodeWords(cmd, wanted), noFiles
	})
}

func (a *app) nodeWords(cmd *cobra.Command, wanted func(client.Node) bool) []string {
	list := func(c *client.Client, ctx context.Context) ([]client.Node, error) {
		got, err := c.Nodes(ctx)
		return got.Nodes, err
	}
	found, _ := clientWords(a, cmd, list, func(n client.Node) string {
		if !wanted(n) {
			return ""
		}
		return cobra.CompletionWithDesc(n.Name, strings.TrimSuffix(string(n.State)+", "+systemText(n.OS, n.Arch), ", "))
	})
	return found
}

// completeNode completes where a command goes on host node: nodes that were not
// revoked, and pools of them.
func (a *app) completeNode(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	pools := map[string]int{}
	words := a.nodeWords(cmd, func(n client.Node) bool {
		if name := n.Labels["pool"]; name != "" && n.State != client.NodeRevoked {
			pools["pool:"+name]++
		}
		return n.State != client.NodeRevoked
	})
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		words = append(words, cobra.CompletionWithDesc(pool, fmt.Sprintf("any of %d", pools[pool])))
	}
	return words, noFiles
}
