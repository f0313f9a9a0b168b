package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

func (a commands) eventsCommand() *cobra.Command {
	var agent string
	var follow bool
	after := int64(-1)
	cmd := &cobra.Command{
		Use: "events [flags]", Short: "Print what became of sessions in the background",
		Long: `Print the events that the gateway keeps, a line for each: the end of sessions in
the background. With --follow it goes on until a signal ends it, also across
restarts of the gateway, and without --after it begins with what comes next.
--agent '*' has those of every agent; --json one document on each line.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := client.EventOptions{After: after, AllAgents: everyAgent(agent), Once: !follow}
			if after < 0 && !follow {
				o.After = 0
			}
			if o.AllAgents {
				agent = session.DefaultAgent
			}
			return a.WithClient(cmd.Context(), agent, func(ctx context.Context, c *client.Client) error {
				for e, err := range c.Events(ctx, o) {
					if err != nil {
						if follow && errors.Is(err, context.Canceled) {
							return nil // as it was meant to end
						}
						return err
					}
					if err := a.printEvent(e, o.AllAgents); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	f.Func("after", "`NUMBER`: begin after the event of that number; 0 is the oldest that is kept", offset(&after, "use an event's number, from 0"))
	a.AddAgentFlag(cmd, &agent)
	f.Bool("json", false, "print JSON, a document on each line")
	return cmd
}

func (a commands) printEvent(e session.Event, agents bool) error {
	if e.Type == client.EventMissed && !a.JSON() {
		a.Warn(fmt.Sprintf("Some events before number %d are no longer kept.", e.Seq))
		return nil
	}
	if a.JSON() {
		return a.PrintJSON(e, nil)
	}
	line := fmt.Sprintf("%d  %s  ", e.Seq, e.Time.Local().Format(time.DateTime))
	if agents {
		line += e.Agent + "  "
	}
	return a.PrintLine(line + words.Printable(e.Text))
}
