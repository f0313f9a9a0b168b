package sessions

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

func (a commands) psCommand() *cobra.Command {
	var agent string
	var all bool
	cmd := &cobra.Command{
		Use: "ps [flags]", Short: "List the sessions of the gateway", SuggestFor: []string{"ls", "list", "sessions"},
		Long: `List the sessions that run, the newest first; with --all also those that have
ended. --agent '*' lists those of every agent. With --quiet only IDs are printed.

An ID is shortened to where no other begins the same; every command that wants
one takes such a beginning.`,
		Example: `  corral ps --all
  corral kill $(corral ps -q)`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withSessions(cmd.Context(), agent, func(list []session.Status) error {
				shown := slices.DeleteFunc(slices.Clone(list), func(s session.Status) bool { return !all && s.Ended() })
				return app.PrintList(a.App, shown, nil, func(s session.Status) string { return s.ID }, func() cmdline.Table {
					return sessionTable(list, shown, everyAgent(agent), time.Now())
				})
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "a", false, "also those that have ended")
	a.AddAgentFlag(cmd, &agent)
	return app.WithJSON(cmd)
}

func everyAgent(agent string) bool { return agent == api.AllAgents }

// withSessions calls do with the sessions of an agent, or of all.
func (a commands) withSessions(ctx context.Context, agent string, do func([]session.Status) error) error {
	all := everyAgent(agent)
	if all {
		agent = session.DefaultAgent
	}
	return a.WithClient(ctx, agent, func(ctx context.Context, c *client.Client) error {
		list, err := c.Sessions(ctx, all)
		if err != nil {
			return err
		}
		return do(list)
	})
}

func sessionTable(list, shown []session.Status, agents bool, now time.Time) cmdline.Table {
	t := cmdline.Table{Headings: []string{"ID", "STATUS", "AGE", "RAN", "HOST", "COMMAND"}}
	if agents {
		t.Headings = slices.Insert(t.Headings, 1, "AGENT")
	}
	for _, s := range shown {
		age := ""
		if !s.StartedAt.IsZero() {
			age = words.Age(now.Sub(s.StartedAt))
		}
		ran := ""
		if s.Ended() && !s.StartedAt.IsZero() {
			ran = words.Age(s.Duration(now))
		}
		host := string(s.Host)
		if s.Node != "" {
			host += ":" + s.Node
		}
		row := []cmdline.Cell{{Text: shortSession(s.ID, list)}, app.StateCell(s), {Text: age}, {Text: ran}, {Text: host}, {Text: shownCommand(s)}}
		if agents {
			row = slices.Insert(row, 1, cmdline.Cell{Text: s.Agent})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// shownCommand is a session's command as far as one reads it in a list; a table
// cuts it to the room there is.
func shownCommand(s session.Status) string {
	const most = 120
	text := cmp.Or(s.Command, s.Name)
	if s.Description != "" {
		text += " (" + s.Description + ")"
	}
	return runewidth.Truncate(words.Printable(text), most, "…")
}

// shortSession is enough of a session's ID to find it again: IDs that people can
// read are left as they are.
func shortSession(id string, list []session.Status) string {
	const readable, short = 24, 12
	if len(id) <= readable {
		return id
	}
	for n := short; n < len(id); n++ {
		if !slices.ContainsFunc(list, func(s session.Status) bool { return s.ID != id && strings.HasPrefix(s.ID, id[:n]) }) {
			return id[:n]
		}
	}
	return id
}
