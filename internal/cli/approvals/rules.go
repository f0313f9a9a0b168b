package approvals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// withRules calls do with the rules of the gateway, or if none runs, with those
// of the file that it would use.
func (a commands) withRules(ctx context.Context, do func(context.Context, reach.RuleKeeper) error) error {
	err := a.WithClient(ctx, session.DefaultAgent, func(ctx context.Context, c *client.Client) error { return do(ctx, c) })
	if !errors.Is(err, reach.ErrNoGateway) {
		return err
	}
	dir, err := a.StateDir()
	if err != nil {
		return err
	}
	c, err := a.Config()
	if err != nil {
		return err
	}
	f, err := approval.NewFile(daemon.ApprovalsPath(c, dir), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, reach.FileRules{File: f}), f.Close())
}

// addRulesAgentFlag defines whose rules they are.
func (a commands) addRulesAgentFlag(cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", session.DefaultAgent, "`NAME`: whose rules; * are those of all")
	app.FromEnvironment(cmd.Flags(), "agent")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("agent", a.CompleteAgents))
}

func (a commands) rulesCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "rules [flags]", Short: "List the rules that approvals are remembered in",
		Long: `List what the file of approvals says to an agent: its own rules, and those of all
agents. Deny rules go before ask rules, and those before what is allowed.`,
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.withRules, func(ctx context.Context, k reach.RuleKeeper, _ []string) error {
			got, err := k.Rules(ctx, agent)
			if err != nil {
				return err
			}
			for _, w := range got.Warnings {
				a.Warn(app.Visible(w))
			}
			t := cmdline.Table{Headings: []string{"ID", "ACTION", "AT", "RULE", "REASON"}}
			for _, r := range got.Rules {
				t.Rows = append(t.Rows, []cmdline.Cell{{Text: app.Visible(r.ID)}, {Text: string(r.Action), Style: actionStyles[r.Action]}, {Text: app.SourceText(r.Source)}, {Text: approval.RuleText(r)}, {Text: app.Visible(r.Reason)}})
			}
			return app.PrintList(a.App, got.Rules, nil, nil, func() cmdline.Table { return t })
		}),
	}
	a.addRulesAgentFlag(cmd, &agent)
	return app.WithJSON(cmd)
}

var actionStyles = map[policy.Action]cmdline.Style{policy.Deny: cmdline.Red, policy.Query: cmdline.Yellow, policy.Allow: cmdline.Green}

func (a commands) addRuleCommand() *cobra.Command {
	var agent, reason string
	var deny, ask, exact bool
	cmd := &cobra.Command{
		Use: "add [flags] PATTERN", Short: "Add a rule",
		Long: `Add a rule that allows a program, or with --deny or --ask one that does not. To
allow, the first word is the path of the program, in which * is any run of
characters but /, ** any run, ? one character; the words after it are the first
arguments, behind which any may come, or with --exact all of them, without
wildcards. To deny or ask, a name is enough.`,
		Example: `  corral approvals add '/usr/bin/git status'
  corral approvals add --exact '/usr/bin/rm -rf build'
  corral approvals add --deny 'rm -rf' --agent '*' --reason 'use trash'`,
		Args: onePattern,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := policy.Rule{Action: policy.Allow, Pattern: args[0], Reason: reason}
			if path := pathWithSpaces(args[0]); path != "" {
				return corral.Errorf(corral.ErrInvalid, "quote it within the pattern: corral approvals add "+words.Quote(policy.QuotePattern(path)),
					"the path %s has spaces, so that the rule would be about another program, with arguments", path)
			}
			if exact {
				r = r.Exactly()
			}
			switch {
			case deny && ask:
				return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--deny and --ask are two rules")
			case deny:
				r.Action = policy.Deny
			case ask:
				r.Action = policy.Query
			}
			return a.withRules(cmd.Context(), func(ctx context.Context, k reach.RuleKeeper) error { return k.AddRule(ctx, agent, r) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&deny, "deny", false, "what it matches may not run")
	f.BoolVar(&ask, "ask", false, "what it matches needs an approval every time")
	f.BoolVar(&exact, "exact", false, "it is about exactly these arguments, not about all that begin with them")
	f.StringVar(&reason, "reason", "", "`TEXT`: why there is the rule, for people")
	a.addRulesAgentFlag(cmd, &agent)
	return cmd
}

// onePattern refuses a pattern that was given as several arguments.
func onePattern(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return corral.Errorf(corral.ErrInvalid, "write it as one argument: "+cmd.CommandPath()+" "+words.Quote(strings.Join(args, " ")),
			"a pattern is one argument, in quotes if it has spaces, and there are %d", len(args))
	case len(args) == 0:
		return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants a pattern", cmd.CommandPath())
	}
	return nil
}

// pathWithSpaces is a file that the first words of a pattern are together, and of
// which the first alone is none; empty if there is none such.
func pathWithSpaces(pattern string) string {
	words := strings.Split(pattern, " ")
	if _, err := os.Stat(words[0]); err == nil || !strings.HasPrefix(pattern, "/") {
		return ""
	}
	for n := 2; n <= len(words); n++ {
		path := strings.Join(words[:n], " ")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

func (a commands) removeRuleCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "remove [flags] PATTERN|ID", Short: "Remove a rule", Aliases: []string{"rm"},
		Long: `Remove the rules of an agent that have this pattern or this ID. corral approvals
rules prints both.`,
		Args: cmdline.Exactly("pattern or ID of a rule"),
		RunE: app.RunWith(a.withRules, func(ctx context.Context, k reach.RuleKeeper, args []string) error {
			n, err := k.RemoveRule(ctx, agent, args[0])
			if err == nil && n > 1 {
				a.Warn(fmt.Sprintf("%d rules had that pattern, and are removed.", n))
			}
			return err
		}),
	}
	a.addRulesAgentFlag(cmd, &agent)
	return cmd
}

func (a commands) rulesFileCommand() *cobra.Command {
	return &cobra.Command{
		Use: "file", Short: "Print where the file of approvals is, or would be",
		Args: cmdline.NoArgs,
		RunE: app.RunWith(a.withRules, func(ctx context.Context, k reach.RuleKeeper, _ []string) error {
			got, err := k.Rules(ctx, session.DefaultAgent)
			if f, ok := k.(reach.FileRules); ok {
				got.File, err = f.Path(), nil // also of one with a mistake
			}
			if err != nil {
				return err
			}
			return a.PrintLine(strings.TrimSpace(got.File))
		}),
	}
}
