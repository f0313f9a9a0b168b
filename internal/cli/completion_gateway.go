package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// askClient asks the gateway while the user waits for the completion of a
// word. If there is none, or it does not answer, there are no words.
func (a *app) askClient(cmd *cobra.Command, agent string, ask func(context.Context, *client.Client) error) {
	if a.readEnvironment(cmd.Flags()) != nil {
		return
	}
	if agent == "" {
		agent = cmd.Flag("agent").Value.String()
	}
	o, _, err := a.findGateway()
	if err != nil {
		return
	}
	actFor(&o, agent)
	o.Retry = -1
	c, err := client.New(o)
	if err != nil {
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completeLimit)
	defer cancel()
	_ = ask(ctx, c) // without an answer there are no words
}

// clientWords are words of a list of the gateway, without those that are empty.
func clientWords[T any](a *app, cmd *cobra.Command, list func(*client.Client, context.Context) ([]T, error), word func(T) string) ([]string, cobra.ShellCompDirective) {
	var found []string
	a.askClient(cmd, session.DefaultAgent, func(ctx context.Context, c *client.Client) error {
		all, err := list(c, ctx)
		for _, one := range all {
			if text := word(one); text != "" {
				found = append(found, text)
			}
		}
		return err
	})
	return found, noFiles
}

// first completes the first argument alone.
func first(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return complete(cmd, args, word)
	}
}

// completeSessions completes the IDs of sessions, up to most of them (0: any
// number), with their names: those that run, or those that have ended; nil: both.
func (a *app) completeSessions(most int, running *bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, noFiles
		}
		var list []string
		a.askClient(cmd, "", func(ctx context.Context, c *client.Client) error {
			all, err := c.Sessions(ctx, false)
			for _, s := range all {
				if !slices.Contains(args, s.ID) && (running == nil || *running != s.Ended()) {
					list = append(list, cobra.CompletionWithDesc(s.ID, stateCell(s).Text+", "+words.Printable(s.Name)))
				}
			}
			return err
		})
		return list, noFiles
	}
}

// completeAgents completes the names of agents that have sessions.
func (a *app) completeAgents(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	words := []string{}
	if name := cmd.Name(); name == "ps" || name == "events" {
		words = append(words, cobra.CompletionWithDesc(api.AllAgents, "all of them"))
	}
	a.askClient(cmd, session.DefaultAgent, func(ctx context.Context, c *client.Client) error {
		list, err := c.Sessions(ctx, true)
		for _, s := range list {
			if !slices.Contains(words, s.Agent) {
				words = append(words, s.Agent)
			}
		}
		return err
	})
	return words, noFiles
}
