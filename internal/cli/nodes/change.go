package nodes

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
)

func (a commands) rename() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "rename [flags] NODE NAME", Short: "Give a node another name",
		Long: `Give a node another name: 1 to 63 of a-z, 0-9, '.', '_' and '-'. It must not be
that of another node, nor look like an address or an ID.`,
		Args: cmdline.Exactly("name or ID of a node", "new name"), ValidArgsFunction: a.CompleteNodes(nil),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.ChangeNode(ctx, args[0], client.NodeChange{Name: args[1]})
			return a.Answer(n, err, func() string { return "Renamed: " + nodeText(n) })
		}),
	})
}

func (a commands) label() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "label [flags] NODE KEY=VALUE|KEY-...", Short: "Set and remove labels of a node",
		Long: `Set labels of a node, and remove those that are written with a hyphen at their
end. Labels that are not named stay.`,
		Example: `  corral nodes label builder pool=gpu zone=a
  corral nodes label builder zone-`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cmdline.Exactly("name or ID of a node", "labels")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: a.CompleteNodes(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			labels := map[string]*string{}
			for _, word := range args[1:] {
				key, value, set := strings.Cut(word, "=")
				removed, remove := strings.CutSuffix(word, "-")
				before := len(labels)
				switch {
				case set:
					labels[key] = &value
				case remove:
					key = removed
					labels[key] = nil
				default:
					return corral.Errorf(corral.ErrInvalid, "write it like pool=gpu, or pool- to remove it", "%.80q is no label", word)
				}
				if len(labels) == before {
					return labelTwice(key)
				}
			}
			return a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				n, err := c.ChangeNode(ctx, args[0], client.NodeChange{Labels: labels})
				return a.Answer(n, err, func() string { return cmp.Or(labelsText(n.Labels), "The node has no labels.") })
			})
		},
	})
}

// addLabelFlag defines the labels that a node gets.
func addLabelFlag(cmd *cobra.Command, labels *[]string) {
	cmd.Flags().StringArrayVar(labels, "label", nil, "`KEY=VALUE`: label that the node gets; may be repeated")
}

func labelTwice(key string) error {
	return corral.Errorf(corral.ErrInvalid, "give it once: a label has one value", "the label %.80q is there twice", key)
}

// parseLabels reads KEY=VALUE.
func parseLabels(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, corral.Errorf(corral.ErrInvalid, "write it like pool=gpu", "%.80q is no label", word)
		}
		if _, twice := labels[key]; twice {
			return nil, labelTwice(key)
		}
		labels[key] = value
	}
	return labels, nil
}

func (a commands) revoke() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "revoke [flags] NODE", Short: "End that a machine is a node",
		Long: `End that a machine is a node, at once: its connection is cut, and its key opens
nothing any more. What runs there goes on, and the gateway does not see it any
more. The machine can ask again, and has to be approved; no setup token pairs it.`,
		Args: cmdline.Exactly("name or ID of a node"), ValidArgsFunction: a.CompleteNodes(nil),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.ChangeNode(ctx, args[0], client.NodeChange{Revoked: true, By: cmp.Or(by, a.WhoAnswers())})
			return a.Answer(n, err, func() string { return "Revoked: " + nodeText(n) })
		}),
	}
	addByFlag(cmd, &by)
	return app.WithJSON(cmd)
}

func (a commands) forget() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "forget [flags] NODE", Short: "Remove a node that was revoked from the list",
		Long: `Remove a node that was revoked from the list. Its key is unknown from then on: to
ask again it needs no more than any other machine.`,
		Args:              cmdline.Exactly("name or ID of a node"),
		ValidArgsFunction: a.CompleteNodes(func(n client.Node) bool { return n.State == client.NodeRevoked }),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.Node(ctx, args[0])
			if err == nil {
				err = c.ForgetNode(ctx, n.ID)
			}
			return a.Answer(n, err, func() string { return "Forgotten: " + nodeText(n) })
		}),
	})
}

// addByFlag defines who decides.
func addByFlag(cmd *cobra.Command, by *string) {
	cmd.Flags().StringVar(by, "by", "", "`NAME`: who says so, for others to see (default you)")
}

// nodeText is a node in a line.
func nodeText(n client.Node) string {
	if n.Kind == client.NodeSSH {
		return app.Visible(n.Name)
	}
	return app.Visible(n.Name) + " (" + app.Visible(n.ID) + ")"
}
