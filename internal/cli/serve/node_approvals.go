package serve

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cli/approvals"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/policy/approval"
)

const nodeApprovalsLong = `Answer for commands of gateways that need an approval on this machine.

They are asked about here if the configuration of this machine says
node.approvals: "local"; what a gateway says counts for nothing then. With the
default, "gateway", they are asked about at the gateway (corral approvals), and
ls --all lists here what ran by an approval from there. A command that was
allowed here runs when its agent calls for it again.

The rules are those of the approvals file of this machine: corral approvals
rules, add and rm.`

func (a commands) nodeApprovals() *cobra.Command {
	cmd := app.Group(&cobra.Command{
		Use: "approvals", Short: "Answer for commands of gateways, on a node that answers for itself", Long: nodeApprovalsLong,
		Example: `  corral node approvals ls
  corral node approvals allow calm-otter-12 --always`,
	})
	for _, sub := range approvals.AnswerCommands(a.App, a.nodeDesk) {
		switch sub.Name() {
		case "ls":
		case "allow":
			sub.Long = "Allow a command. It runs when its agent calls for it again.\n" + sub.Long[len("Allow a command. It runs then, in the background unless a call waits for it.\n"):]
			fallthrough
		default:
			sub.ValidArgsFunction = a.completeNodeApprovals
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

// nodeDesk is that of the node of the state directory.
func (a commands) nodeDesk(ctx context.Context, do func(context.Context, approvals.Desk) error) error {
	dir, err := a.nodeDir()
	if err != nil {
		return err
	}
	return foreground.UntilSignal(ctx, func(ctx context.Context) error {
		return do(ctx, reach.NodeDesk(dir))
	})
}

func (a commands) completeNodeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir, err := a.nodeDir()
	if len(args) > 0 || a.ReadEnvironment(cmd.Flags()) != nil || err != nil {
		return nil, app.NoFiles
	}
	list, _ := reach.NodeDesk(dir).List(approval.Filter{State: approval.Pending}) // without an answer there are no words
	var words []string
	for _, rec := range list {
		words = append(words, approvals.Slug(rec))
	}
	return words, app.NoFiles
}
