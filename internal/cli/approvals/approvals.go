package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

const approvalsLong = `Answer for commands that need an approval, and keep the rules that approvals are
remembered in.

A command that no rule allows waits until a person allows or denies it, or until
it expires; the first answer counts. What was allowed runs as it was asked for,
or not at all: if the directory, a program or a script was changed meanwhile, it
is refused. An ID may be a slug, or a beginning that no other has.

ls, show, allow, deny and watch ask the gateway that runs; the others also work
without one, on its file.`

// Command is corral approvals.
func Command(in *app.App) *cobra.Command {
	a := commands{in}
	return app.Group(&cobra.Command{
		Use: "approvals", Short: "Answer for commands that need an approval", Long: approvalsLong,
		Example: `  corral approvals ls
  corral approvals allow calm-otter-12
  corral approvals allow calm-otter-12 --always --scope subcommand
  corral approvals watch
  corral approvals add '/usr/bin/git status'`,
	}, append(AnswerCommands(a.App, a.gatewayDesk), a.watch(), a.rulesCommand(), a.addRuleCommand(), a.removeRuleCommand(), a.rulesFileCommand())...)
}

// AnswerCommands are those by which a person answers at a desk.
func AnswerCommands(a *app.App, at withDesk) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{c.ls(at), c.show(at), c.allow(at), c.deny(at)}
}

// A Desk is where approvals are asked for and given: that of a gateway, or of a
// node that answers for itself.
type Desk interface {
	Approvals(ctx context.Context, f approval.Filter) ([]approval.Record, error)
	Approval(ctx context.Context, ref string) (approval.Record, error)
	Answer(ctx context.Context, ref string, a approval.Answer) (approval.Record, error)
}

// withDesk calls do with a desk. The first signal ends it.
type withDesk func(ctx context.Context, do func(context.Context, Desk) error) error

func (a commands) gatewayDesk(ctx context.Context, do func(context.Context, Desk) error) error {
	return a.WithClient(ctx, session.DefaultAgent, func(ctx context.Context, c *client.Client) error { return do(ctx, c) })
}

// addWhoseFlag defines whose approvals they are: all agents', if it is not given.
func (a commands) addWhoseFlag(cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", "", "`NAME`: only those of this agent")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("agent", a.CompleteAgents))
}

func (a commands) ls(at withDesk) *cobra.Command {
	var agent string
	var all bool
	cmd := &cobra.Command{
		Use: "ls [flags]", Short: "List the approvals that are pending, of all agents",
		Long: `List the approvals that are pending, the oldest first; with --all also those that
were answered or expired in the last day. With --quiet only their slugs are
printed.`,
		Args: cmdline.NoArgs,
		RunE: app.RunWith(at, func(ctx context.Context, d Desk, _ []string) error {
			f := approval.Filter{Agent: agent, State: approval.Pending}
			if all || agent == "*" {
				f = approval.Filter{Agent: strings.TrimSuffix(agent, "*"), State: f.State}
			}
			if all {
				f.State = ""
			}
			list, err := d.Approvals(ctx, f)
			return app.PrintList(a.App, list, err, func(rec approval.Record) string { return rec.Slug }, func() cmdline.Table { return approvalTable(list, all, time.Now()) })
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also those that are not pending")
	a.addWhoseFlag(cmd, &agent)
	return app.WithJSON(cmd)
}

func approvalTable(list []approval.Record, all bool, now time.Time) cmdline.Table {
	t := cmdline.Table{Headings: []string{"ID", "AGENT", "HOST", "AGE", "EXPIRES", "COMMAND", "WHY"}}
	if all {
		t.Headings = slices.Insert(t.Headings, 1, "STATE")
	}
	for _, rec := range list {
		expires := ""
		if rec.State == approval.Pending || rec.State == approval.Allowed {
			expires = words.Age(rec.ExpiresAt.Sub(now))
		}
		row := []cmdline.Cell{{Text: rec.Slug}, {Text: rec.Agent}, {Text: rec.Place()}, {Text: words.Age(now.Sub(rec.CreatedAt))}, {Text: expires},
			{Text: app.Brief(rec.Line(), app.MostOfCommand)}, {Text: app.Brief(rec.Decision.Reason, 2*app.MostOfCommand)}}
		if all {
			row = slices.Insert(row, 1, cmdline.Cell{Text: string(rec.State), Style: stateStyles[rec.State]})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

var stateStyles = map[approval.State]cmdline.Style{approval.Pending: cmdline.Yellow, approval.Allowed: cmdline.Green, approval.Denied: cmdline.Red, approval.Consumed: cmdline.Dim, approval.Expired: cmdline.Dim}

func (a commands) show(at withDesk) *cobra.Command {
	return app.WithJSON(&cobra.Command{
		Use: "show [flags] ID", Short: "Print all about an approval",
		Long: `Print all about an approval: the command, where it would run, why it needs an
approval, which programs it would run, and what --always would remember in each
scope.`,
		Args: cmdline.Exactly("ID of an approval"), ValidArgsFunction: app.First(a.completeApprovals),
		RunE: app.RunWith(at, func(ctx context.Context, d Desk, args []string) error {
			rec, err := d.Approval(ctx, args[0])
			return a.Answer(rec, err, func() string { return strings.Join(describeApproval(rec, time.Now()), "\n") })
		}),
	})
}

func (a commands) allow(at withDesk) *cobra.Command {
	var always bool
	var scope string
	cmd := &cobra.Command{
		Use: "allow [flags] ID", Short: "Allow a command, once or from now on",
		Long: `Allow a command. It runs then, in the background unless a call waits for it.
With --always it is remembered, and what was remembered is printed; show says
beforehand what that would be. The scopes are: exact, each program with exactly
these arguments (the default); subcommand, with this first argument; program,
with any arguments.`,
		Args: cmdline.Exactly("ID of an approval"), ValidArgsFunction: app.First(a.completeApprovals),
	}
	f := cmd.Flags()
	f.BoolVar(&always, "always", false, "and remember it")
	scopes := make([]string, len(approval.Scopes))
	for i, s := range approval.Scopes {
		scopes[i] = string(s)
	}
	cmdline.AddChoice(cmd, &scope, "scope", "how much of it --always remembers; means --always", scopes...)
	a.answers(cmd, at, func() approval.Answer {
		if always || scope != "" {
			return approval.Answer{Decision: approval.AllowAlways, Scope: approval.Scope(scope)}
		}
		return approval.Answer{Decision: approval.AllowOnce}
	})
	return cmd
}

func (a commands) deny(at withDesk) *cobra.Command {
	var all bool
	var agent string
	cmd := &cobra.Command{
		Use: "deny [flags] ID... | deny [flags] --all", Short: "Deny commands", ValidArgsFunction: a.completeApprovals,
		Long: `Deny commands: they do not run, and their agents are told. With --all, everything
that is pending is denied, or all of one agent; what another person answers
meanwhile is left as it is.`,
		Example: `  corral approvals deny calm-otter-12
  corral approvals deny --all --agent nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--all is about all that are pending, and there is an ID")
			case !all && agent != "":
				return corral.Errorf(corral.ErrInvalid, "add --all", "--agent says whose approvals --all denies")
			case all:
				return nil
			}
			return cmdline.AtLeastOne("ID of an approval, or --all")(cmd, args)
		},
	}
	a.answers(cmd, at, func() approval.Answer { return approval.Answer{Decision: approval.Deny} })
	one := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !all && len(args) == 1 {
			return one(cmd, args)
		}
		return at(cmd.Context(), func(ctx context.Context, d Desk) error { return a.denyMany(ctx, cmd, d, agent, args) })
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that are pending")
	a.addWhoseFlag(cmd, &agent)
	return cmd
}

// denyMany denies the approvals that are named, or all of an agent that are pending.
// One that cannot be denied does not keep the others from it.
func (a commands) denyMany(ctx context.Context, cmd *cobra.Command, d Desk, agent string, refs []string) error {
	by, err := cmd.Flags().GetString("by")
	if err != nil {
		return err
	}
	by = cmp.Or(by, a.WhoAnswers())
	denied, failed := []approval.Record{}, error(nil)
	if len(refs) == 0 {
		pending, err := d.Approvals(ctx, approval.Filter{Agent: agent, State: approval.Pending})
		if err != nil {
			return err
		}
		denied, failed = approval.DenyAll(ctx, pending, by, d.Answer)
	}
	for _, ref := range refs {
		rec, err := d.Answer(ctx, ref, approval.Answer{Decision: approval.Deny, By: by})
		if failed = errors.Join(failed, err); err == nil {
			denied = append(denied, rec)
		}
	}
	switch {
	case a.JSON() && failed != nil:
		return a.PrintJSON(struct {
			Denied []approval.Record `json:"denied"`
			app.Failure
		}{denied, app.NewFailure(failed)}, failed)
	case a.JSON():
		return a.PrintJSON(denied, nil)
	case len(denied) == 0 && failed == nil:
		return a.PrintLine("Nothing is pending.")
	}
	for _, rec := range denied {
		failed = errors.Join(failed, a.PrintLine(strings.Join(answeredText(rec), "\n")))
	}
	return failed
}

// answers makes cmd one that answers an approval.
func (a commands) answers(cmd *cobra.Command, at withDesk, answer func() approval.Answer) {
	var by string
	cmd.Flags().StringVar(&by, "by", "", "`NAME`: who says so, for others to see (default you)")
	cmd.Flags().Bool("json", false, "print the approval as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return at(cmd.Context(), func(ctx context.Context, d Desk) error {
			give := answer()
			give.By = cmp.Or(by, a.WhoAnswers())
			rec, err := d.Answer(ctx, args[0], give)
			return a.Answer(rec, err, func() string { return strings.Join(answeredText(rec), "\n") })
		})
	}
}

// answeredText says what an answer did.
func answeredText(rec approval.Record) []string {
	text := app.Brief(rec.Line(), 2*app.MostOfCommand)
	switch rec.Verdict {
	case approval.Deny:
		return []string{"Denied: " + text}
	case approval.AllowAlways:
		lines := []string{"Allowed: " + text, "Remembered for the agent " + rec.Agent + ":"}
		for _, p := range rec.Previews {
			if p.Scope == rec.Scope {
				for _, l := range p.Lines() {
					lines = append(lines, "  "+l)
				}
			}
		}
		return lines
	}
	return []string{"Allowed once: " + text}
}

// completeApprovals completes the slugs of those that are pending.
func (a commands) completeApprovals(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	list := func(c *client.Client, ctx context.Context) ([]approval.Record, error) {
		return c.Approvals(ctx, approval.Filter{State: approval.Pending})
	}
	return app.ClientWords(a.App, cmd, list, Slug)
}

// Slug is the slug of an approval, with a description for the shell.
func Slug(rec approval.Record) string {
	return cobra.CompletionWithDesc(rec.Slug, fmt.Sprintf("%s, %s: %s", rec.Agent, rec.Place(), app.Brief(rec.Line(), app.MostOfCommand)))
}

// PendingHint says what to do about a command that needs an approval.
func PendingHint(rec approval.Record, id string) string {
	return "corral approvals allow " + rec.Slug + " (or show, or deny); it then runs in the background as the session " + id
}
