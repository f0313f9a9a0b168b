package approvals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

func (a commands) watch() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "watch [flags]", Short: "Ask about each approval as it comes, or print them",
		Long: `On a terminal, ask about each approval that is pending, and then about each as it
comes. Elsewhere, or with --json, print a line for each that is pending, and for
each change. It goes on until a signal ends it, also across restarts of the
gateway.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var q *asker
			if !a.JSON() {
				if q = OpenAsker(a.App); q != nil {
					defer q.Lines.Close()
				}
			}
			err := a.WithClient(cmd.Context(), session.DefaultAgent, func(ctx context.Context, c *client.Client) error {
				return reach.WatchApprovals(ctx, c, agent, func(rec approval.Record) error {
					switch {
					case q != nil:
						return q.answer(ctx, c, rec)
					case a.JSON():
						return a.PrintJSON(rec, nil)
					}
					return a.PrintLine(changeText(rec))
				})
			})
			if errors.Is(err, terminal.ErrClosed) {
				return nil
			}
			return err
		},
	}
	a.addWhoseFlag(cmd, &agent)
	cmd.Flags().Bool("json", false, "print JSON, a document on each line")
	return cmd
}

// changeText is an approval on one line.
func changeText(rec approval.Record) string {
	return fmt.Sprintf("%s  %s  %s  %s  %s  %s", time.Now().Format(time.DateTime), rec.Slug, rec.State, rec.Agent, rec.Place(), app.Brief(rec.Line(), 2*app.MostOfCommand))
}

// answer asks about an approval that is pending, and says what came of it.
func (q *asker) answer(ctx context.Context, c *client.Client, rec approval.Record) error {
	if rec.State != approval.Pending {
		return nil
	}
	rec, err := c.Approval(ctx, rec.ID) // it may have been answered since
	switch {
	case errors.Is(err, corral.ErrNotFound), err == nil && rec.State != approval.Pending:
		return nil
	case err != nil:
		return err
	}
	now, err := c.AwaitApproval(ctx, rec, q.Ask)
	switch {
	case errors.Is(err, ErrSkipped):
		return q.say("Left pending.")
	case errors.Is(err, corral.ErrInvalid), errors.Is(err, corral.ErrDenied), errors.Is(err, corral.ErrNotFound):
		return q.say("It was not answered: " + app.Visible(err.Error()))
	case err != nil:
		return err
	case now.AnsweredBy != q.app.WhoAnswers():
		return q.say("By somebody else: " + app.Visible(now.Settled()))
	}
	return q.say(answeredText(now)...)
}
