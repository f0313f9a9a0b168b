package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// askClient asks the gateway while the user waits for the completion of a
// word. If there is none, or it does not answer, there are no words.
func (a *App) askClient(cmd *cobra.Command, agent string, ask func(context.Context, *client.Client) error) {
	if a.ReadEnvironment(cmd.Flags()) != nil {
		return
	}
	if agent == "" {
		agent = cmd.Flag("agent").Value.String()
	}
	o, _, err := a.FindGateway()
	if err != nil {
		return
	}
	ActFor(&o, agent)
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

// ClientWords are words of a list of the gateway, without those that are empty.
func ClientWords[T any](a *App, cmd *cobra.Command, list func(*client.Client, context.Context) ([]T, error), word func(T) string) ([]string, cobra.ShellCompDirective) {
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
	return found, NoFiles
}

// First completes the first argument alone.
func First(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, NoFiles
		}
		return complete(cmd, args, word)
	}
}

// CompleteSessions completes the IDs of sessions, up to most of them (0: any
// number), with their names: those that run, or those that have ended; nil: both.
func (a *App) CompleteSessions(most int, running *bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, NoFiles
		}
		var list []string
		a.askClient(cmd, "", func(ctx context.Context, c *client.Client) error {
			all, err := c.Sessions(ctx, false)
			for _, s := range all {
				if !slices.Contains(args, s.ID) && (running == nil || *running != s.Ended()) {
					list = append(list, cobra.CompletionWithDesc(s.ID, StateCell(s).Text+", "+words.Printable(s.Name)))
				}
			}
			return err
		})
		return list, NoFiles
	}
}

// CompleteAgents completes the names of agents that have sessions.
func (a *App) CompleteAgents(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
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
	return words, NoFiles
}

// CompleteNodes completes the names of nodes that are wanted (nil: those that
// were not revoked), as the first argument.
func (a *App) CompleteNodes(wanted func(client.Node) bool) cobra.CompletionFunc {
	if wanted == nil {
		wanted = func(n client.Node) bool { return n.State != client.NodeRevoked && n.Kind != client.NodeSSH }
	}
	return First(func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.nodeWords(cmd, wanted), NoFiles
	})
}

func (a *App) nodeWords(cmd *cobra.Command, wanted func(client.Node) bool) []string {
	list := func(c *client.Client, ctx context.Context) ([]client.Node, error) {
		got, err := c.Nodes(ctx)
		return got.Nodes, err
	}
	found, _ := ClientWords(a, cmd, list, func(n client.Node) string {
		if !wanted(n) {
			return ""
		}
		return cobra.CompletionWithDesc(n.Name, strings.TrimSuffix(string(n.State)+", "+SystemText(n.OS, n.Arch), ", "))
	})
	return found
}

// CompleteNode completes where a command goes on host node: nodes that were not
// revoked, and pools of them.
func (a *App) CompleteNode(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
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
	return words, NoFiles
}
