package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/words"
)

func (a commands) join() *cobra.Command {
	var webSocket bool
	cmd := &cobra.Command{
		Use: "join [flags]", Short: "Print what to run on a machine that is to be a node",
		Long: `Print what to run on a machine that is to be a node. The line says where the
gateway is, and which key and certificate it has, so that the machine believes
no other. It is no secret: who has it can ask.

The addresses in it are those of --nodes-advertise, or those that this machine
has.`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				j, err := c.JoinNodes(ctx)
				if err != nil {
					return err
				}
				flag := "--nodes"
				if webSocket {
					flag = "--nodes-websocket"
				}
				if webSocket && j.WebSocket != nil {
					j = *j.WebSocket
				} else if webSocket && !strings.HasPrefix(j.Line, "corral+wss:") {
					return corral.Errorf(corral.ErrInvalid, "start it with --nodes-websocket ADDRESS:PORT", "the gateway does not listen for nodes that connect by WebSocket")
				}
				if !slices.ContainsFunc(j.Hosts, reachedByOthers) {
					a.Warn("Only this machine reaches the gateway at " + strings.Join(j.Hosts, ", ") + "; start it with " + flag + " 0.0.0.0:PORT, or with --nodes-advertise HOST:PORT.")
				}
				return a.Answer(j, nil, func() string { return j.Command })
			})
			if errors.Is(err, reach.ErrNoGateway) && corral.Hint(err) == reach.StartHint {
				return corral.Errorf(reach.ErrNoGateway, reach.StartHint+" --nodes ADDRESS:PORT", "%w", err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&webSocket, "websocket", false, "for a machine that can connect by WebSocket alone")
	return app.WithJSON(cmd)
}

// reachedByOthers reports whether HOST:PORT may mean the same on another machine.
func reachedByOthers(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, ipErr := netip.ParseAddr(host)
	return err == nil && host != "localhost" && (ipErr != nil || !ip.IsLoopback())
}

func (a commands) pending() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "pending [flags]", Short: "List the machines that ask to be nodes",
		Long: `List the machines that ask to be nodes, the oldest first; with --all also those
that were answered in the last hour. Compare the code with the one that the
machine shows: it is made of its key and the gateway's. What else is said about a
machine, but for the address, it says itself. With --quiet only the codes are
printed.`,
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.NodeRequests(ctx)
			if !all {
				list = slices.DeleteFunc(list, answered)
			}
			return app.PrintList(a.App, list, err, func(q client.NodeRequest) string { return q.Code }, func() cmdline.Table { return requestTable(list, all, time.Now()) })
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that were answered")
	return app.WithJSON(cmd)
}

// stillPending is the state of a request without an answer.
const stillPending = "pending"

func answered(q client.NodeRequest) bool { return q.State != stillPending }

func requestTable(list []client.NodeRequest, all bool, now time.Time) cmdline.Table {
	t := cmdline.Table{Headings: []string{"CODE", "NAME", "FROM", "SYSTEM", "VERSION", "AGE", "EXPIRES", "NOTE"}}
	if all {
		t.Headings = slices.Insert(t.Headings, 1, "STATE")
	}
	for _, q := range list {
		row := []cmdline.Cell{{Text: q.Code, Style: cmdline.Bold}, {Text: q.Name}, {Text: q.From}, {Text: app.SystemText(q.OS, q.Arch)}, {Text: app.Visible(q.Version)},
			{Text: words.Age(now.Sub(q.AskedAt))}, {Text: words.Age(q.ExpiresAt.Sub(now))}, {Text: requestNote(q, now), Style: cmdline.Yellow}}
		if all {
			row = slices.Insert(row, 1, cmdline.Cell{Text: q.State})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// requestNote is a reason to be careful with a request.
func requestNote(q client.NodeRequest, now time.Time) string {
	switch {
	case q.AnsweredBy != "":
		return "by " + app.Visible(q.AnsweredBy)
	case !q.RevokedAt.IsZero():
		return "this key was revoked " + cmdline.WhenText(q.RevokedAt, now)
	case q.SameName != "":
		return "calls itself " + app.Brief(q.Host, app.MostOfCommand) + ", as node " + q.SameName + " is called: is it another machine?"
	}
	return ""
}

func (a commands) approve() *cobra.Command {
	var name, by string
	var words []string
	cmd := &cobra.Command{
		Use: "approve [flags] CODE", Short: "Make a node of a machine that asks",
		Long: `Make a node of the machine that shows this code. It begins to work by itself. An
ID or a key from corral nodes pending --json may stand for the code.`,
		Example: `  corral nodes approve 7k2m-x0qd
  corral nodes approve 7k2m-x0qd --name builder --label pool=gpu`,
		Args: cmdline.Exactly("code that the machine shows"), ValidArgsFunction: app.First(a.completeCodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			labels, err := parseLabels(words)
			if err != nil {
				return err
			}
			return a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				n, err := c.ApproveNode(ctx, args[0], client.NodeAnswer{Name: name, Labels: labels, By: cmp.Or(by, a.WhoAnswers())})
				if err == nil && name == "" && n.Host != "" && !strings.EqualFold(n.Host, n.Name) {
					a.Warn(fmt.Sprintf("The machine calls itself %s, and is called %s here; corral nodes rename gives it another name.", app.Brief(n.Host, app.MostOfCommand), app.Visible(n.Name)))
				}
				return a.Answer(n, err, func() string { return "Paired: " + nodeText(n) })
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME`: that the node gets (default what the machine suggests)")
	addLabelFlag(cmd, &words)
	addByFlag(cmd, &by)
	return app.WithJSON(cmd)
}

// rejected is what corral nodes reject prints as JSON.
type rejected struct {
	Code  string `json:"code"`
	State string `json:"state"`
}

// withdrawn is what corral nodes tokens rm prints as JSON.
type withdrawn struct {
	ID string `json:"id"`
}

func (a commands) reject() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "reject [flags] CODE", Short: "Refuse a machine that asks to be a node",
		Long: "Refuse the machine that shows this code: it is told, and may ask again in an hour.",
		Args: cmdline.Exactly("code that the machine shows"), ValidArgsFunction: app.First(a.completeCodes),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RejectNode(ctx, args[0], cmp.Or(by, a.WhoAnswers()))
			return a.Answer(rejected{args[0], "rejected"}, err, func() string { return "Rejected: " + app.Visible(args[0]) })
		}),
	}
	addByFlag(cmd, &by)
	return app.WithJSON(cmd)
}

// completeCodes completes the codes of machines that ask.
func (a commands) completeCodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return app.ClientWords(a.App, cmd, (*client.Client).NodeRequests, func(q client.NodeRequest) string {
		if answered(q) {
			return ""
		}
		return cobra.CompletionWithDesc(q.Code, q.Name+" at "+cmp.Or(q.From, "an unknown address"))
	})
}

func (a commands) tokens() *cobra.Command {
	return app.Group(&cobra.Command{
		Use: "tokens", Short: "Approve machines in advance, by setup tokens",
		Long: `Approve machines in advance: a setup token pairs a machine without a person at
the gateway. It is a secret; give it to corral node in a
file (--token-file) or in CORRAL_NODE_TOKEN, never on its command line.`,
		Example: `  corral nodes tokens new --ttl 24h --uses 10 --label pool=ci
  corral nodes tokens ls
  corral nodes tokens rm 3f8k2m1x`,
	}, a.tokensNew(), a.tokensLs(), a.tokensRm())
}

func (a commands) tokensNew() *cobra.Command {
	var by string
	var words []string
	n := client.NewNodeToken{Uses: 1}
	ttl := cmdline.Seconds(api.DefaultTokenTTL)
	cmd := &cobra.Command{
		Use: "new [flags]", Short: "Make a setup token and print it",
		Long: "Make a setup token and print it, this once: only a hash of it is kept.",
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch { // to a gateway 0 is the default
			case ttl == 0:
				return corral.Errorf(corral.ErrInvalid, "use 1s to 2160h, such as 24h", "--ttl 0 is no time in which a token could be used")
			case n.Uses < 1:
				return corral.Errorf(corral.ErrInvalid, "use 1 to 1000", "--uses %d pairs no machine", n.Uses)
			}
			n.TTL, n.By = api.Duration(ttl), cmp.Or(by, a.WhoAnswers())
			if n.Labels, err = parseLabels(words); err != nil {
				return err
			}
			return a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				made, err := c.NewNodeToken(ctx, n)
				return a.Answer(made, err, func() string { return made.Token })
			})
		},
	}
	f := cmd.Flags()
	f.Var(&ttl, "ttl", "`TIME`: how long it can be used, at most 2160h")
	f.IntVar(&n.Uses, "uses", 1, "`N`: how many machines it pairs, at most 1000")
	addLabelFlag(cmd, &words)
	addByFlag(cmd, &by)
	return app.WithJSON(cmd)
}

func (a commands) tokensLs() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "ls [flags]", Short: "List the setup tokens that can be used",
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.NodeTokens(ctx)
			return app.PrintList(a.App, list, err, nil, func() cmdline.Table {
				t := cmdline.Table{Headings: []string{"ID", "USES", "EXPIRES", "BY", "LABELS"}}
				now := time.Now()
				for _, k := range list {
					t.Rows = append(t.Rows, []cmdline.Cell{{Text: k.ID}, {Text: fmt.Sprint(k.Left)}, {Text: words.Age(k.ExpiresAt.Sub(now))}, {Text: app.Visible(k.By)}, {Text: labelsText(k.Labels)}})
				}
				return t
			})
		}),
	})
}

func (a commands) tokensRm() *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "rm [flags] ID", Short: "Withdraw a setup token", Aliases: []string{"remove"},
		Long: "Withdraw a setup token: it pairs no machine any more. Those that it paired stay.",
		Args: cmdline.Exactly("ID of a setup token"), ValidArgsFunction: app.First(a.completeTokens),
		RunE: app.RunWith(a.WithGateway, func(ctx context.Context, c *client.Client, args []string) error {
			err := c.WithdrawNodeToken(ctx, args[0])
			return a.Answer(withdrawn{args[0]}, err, func() string { return "Withdrawn: " + app.Visible(args[0]) })
		}),
	})
}

// completeTokens completes the IDs of setup tokens.
func (a commands) completeTokens(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return app.ClientWords(a.App, cmd, (*client.Client).NodeTokens, func(k client.NodeToken) string {
		return cobra.CompletionWithDesc(k.ID, fmt.Sprintf("%d uses, by %s", k.Left, app.Visible(k.By)))
	})
}
