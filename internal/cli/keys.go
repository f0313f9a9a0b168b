package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
)

const keysLong = `Say who else may use the gateway, and for what. A key has a role, the agents that
it may act for, the hosts that it may act on, quotas, and perhaps an end. Roles:

  viewer    looks at sessions, output, files, approvals and nodes
  agent     also runs commands for its agents
  approver  looks, and answers approvals
  operator  does everything but make keys and change the configuration
  admin     does everything

The secret of a key is shown once; the gateway keeps a hash.`

func (a commands) keysCommand() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "keys", Short: "Let others use the gateway, within bounds", Long: keysLong,
		Example: `  corral keys create acme --role agent --agent 'acme-*' --max-sessions 20
  corral keys ls
  corral keys rotate acme
  corral keys revoke acme`,
	}, a.keysCreate(), a.keysLs(), a.keysRevoke(), a.keysRotate())
}

func (a commands) keysCreate() *cobra.Command {
	var n client.NewKey
	var ttl cmdline.Seconds
	cmd := &cobra.Command{
		Use: "create [flags] NAME", Short: "Make a key and print its secret",
		Long: "Make a key and print its secret, this once: only a hash of it is kept. Without\n--agent it is for all agents, without --host for all hosts.",
		Args: cmdline.Exactly("name of a key"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("ttl") && ttl == 0 {
				return corral.Errorf(corral.ErrInvalid, "leave it out for a key that does not expire", "--ttl 0 is no time in which a key could be used")
			}
			if n.Role == "" {
				return corral.Errorf(corral.ErrInvalid, "add --role "+words.Or(access.With(access.Public)), "the key has no role")
			}
			n.Name, n.TTL = args[0], api.Duration(ttl)
			return a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				made, err := c.NewKey(ctx, n)
				return a.Answer(made, err, func() string { return made.Secret })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Role, "role", "", "`ROLE`: "+words.Or(access.With(access.Public)))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(access.With(access.Public), cobra.ShellCompDirectiveNoFileComp)))
	f.StringArrayVar(&n.Agents, "agent", nil, "`PATTERN`: an agent that it may act for, such as acme-*; may be repeated")
	f.StringArrayVar(&n.Hosts, "host", nil, "`HOST`: sandbox, gateway or node, where it may act; may be repeated")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("host", cobra.FixedCompletions([]string{"sandbox", "gateway", "node"}, cobra.ShellCompDirectiveNoFileComp)))
	f.IntVar(&n.MaxSessions, "max-sessions", 0, "`N`: how many sessions of its agents may run at a time (default as many as an agent may have)")
	f.IntVar(&n.MaxSandboxes, "max-sandboxes", 0, "`N`: how many sandboxes of its agents may have a container on the gateway's machine")
	f.Var(cmdline.Size{Bytes: &n.MaxMemory}, "max-memory", "`SIZE`: memory that these may use together, such as 8g")
	f.Float64Var(&n.MaxCPUs, "max-cpus", 0, "`N`: processors that these may use together")
	f.Float64Var(&n.Rate, "rate", 0, "`N`: requests a second (default no limit)")
	f.Var(&ttl, "ttl", "`TIME`: how long it can be used, such as 2160h (default for ever)")
	return app.WithJSON(cmd)
}

func (a commands) keysLs() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List the keys",
		Long: "List the keys, the oldest first, without their secrets. With --quiet only their\nIDs are printed.",
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Keys(ctx)
			return app.PrintList(a.App, list, err, func(k client.Key) string { return k.ID }, func() cmdline.Table { return keysTable(list, time.Now()) })
		}),
	})
}

func keysTable(list []client.Key, now time.Time) cmdline.Table {
	t := cmdline.Table{Headings: []string{"ID", "NAME", "ROLE", "AGENTS", "HOSTS", "SESSIONS", "SANDBOXES", "RATE", "EXPIRES"}}
	limit := func(n float64) string {
		if n == 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	for _, k := range list {
		expires := "never"
		switch {
		case k.ExpiresAt != nil && k.ExpiresAt.Before(now):
			expires = "expired"
		case k.ExpiresAt != nil:
			expires = "in " + words.Age(k.ExpiresAt.Sub(now))
		}
		row := []string{
			k.ID, app.Visible(k.Name), k.Role, app.Visible(cmp.Or(strings.Join(k.Agents, " "), "all")), cmp.Or(strings.Join(k.Hosts, " "), "all"),
			limit(float64(k.MaxSessions)), limit(float64(k.MaxSandboxes)), limit(k.Rate), expires,
		}
		cells := make([]cmdline.Cell, len(row))
		for i, text := range row {
			cells[i] = cmdline.Cell{Text: text}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// revokedKey is what corral keys revoke prints as JSON.
type revokedKey struct {
	Key string `json:"key"`
}

func (a commands) keysRevoke() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "revoke [flags] KEY", Short: "End a key",
		Long: "End a key, named by its ID or name, and what is open by it: logs, terminals,\nevents. What runs goes on.",
		Args: cmdline.Exactly("ID or name of a key"), ValidArgsFunction: app.First(a.completeKeyNames),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RevokeKey(ctx, args[0])
			return a.Answer(revokedKey{args[0]}, err, func() string { return "Revoked: " + app.Visible(args[0]) })
		}),
	})
}

func (a commands) keysRotate() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "rotate [flags] KEY", Short: "Give a key another secret and print it",
		Long: "Give a key, named by its ID or name, another secret and ID, and print the secret.\nThe old one ends at once, and what is open by it.",
		Args: cmdline.Exactly("ID or name of a key"), ValidArgsFunction: app.First(a.completeKeyNames),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			made, err := c.RotateKey(ctx, args[0])
			return a.Answer(made, err, func() string { return made.Secret })
		}),
	})
}

// completeKeyNames completes the names of keys.
func (a commands) completeKeyNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return app.ClientWords(a.App, cmd, (*client.Client).Keys, func(k client.Key) string {
		return cobra.CompletionWithDesc(k.Name, k.Role)
	})
}
