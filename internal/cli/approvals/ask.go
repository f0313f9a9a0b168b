package approvals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy/approval"
)

// An asker asks the user at the terminal.
type asker struct {
	app   *app.App
	Lines *terminal.Lines
}

// ErrSkipped leaves an approval pending.
var ErrSkipped = errors.New("the answer was put off")

// OpenAsker returns nil if there is no terminal.
func OpenAsker(a *app.App) *asker {
	if _, ok := terminal.Shows(a.Stderr); !ok || !terminal.Is(a.Stdin) {
		return nil
	}
	lines, err := terminal.OpenLines()
	if err != nil {
		return nil
	}
	return &asker{a, lines}
}

func (q *asker) say(lines ...string) error {
	_, err := fmt.Fprintln(q.app.Stderr, strings.Join(lines, "\n"))
	return err
}

// read reads a line that the user types.
func (q *asker) read(ctx context.Context, prompt string) (string, error) {
	if _, err := fmt.Fprint(q.app.Stderr, prompt); err != nil {
		return "", err
	}
	line, err := q.Lines.Read(ctx)
	if ctx.Err() != nil && err != nil {
		_ = q.say("") // the next line is not the answer
	}
	return strings.ToLower(line), err
}

// Ask is a tool.Approver: it shows a command, and what always would remember
// before that can be said. Keys that were typed before are dropped: they were meant for
// another approval, which may have been answered elsewhere.
func (q *asker) Ask(ctx context.Context, rec approval.Record) (approval.Answer, error) {
	q.Lines.Ask()
	lines := append([]string{"", fmt.Sprintf("Approval %s is asked for, by the agent %s; expires in %s.", rec.Slug, app.Visible(rec.Agent), words.Age(time.Until(rec.ExpiresAt)))}, rec.About()...)
	lines = append(lines, rec.AboutAlways()...)
	if err := q.say(lines...); err != nil {
		return approval.Answer{}, err
	}
	always := slices.Contains(rec.AllowedDecisions, approval.AllowAlways)
	prompt := "[o]nce [a]lways [d]eny [s]kip: "
	if !always {
		prompt = "[o]nce [d]eny [s]kip: "
	}
	by := q.app.WhoAnswers()
	for {
		said, err := q.read(ctx, prompt)
		switch {
		case err != nil:
			return approval.Answer{}, err
		case said == "o" || said == "once":
			return approval.Answer{Decision: approval.AllowOnce, By: by}, nil
		case said == "d" || said == "deny":
			return approval.Answer{Decision: approval.Deny, By: by}, nil
		case said == "s" || said == "skip":
			return approval.Answer{}, ErrSkipped
		case always && (said == "a" || said == "always"):
			scope, err := q.scope(ctx, rec)
			if err != nil || scope != "" {
				return approval.Answer{Decision: approval.AllowAlways, Scope: scope, By: by}, err
			}
		}
	}
}

// scope asks how much is to be remembered; empty: nothing after all.
func (q *asker) scope(ctx context.Context, rec approval.Record) (approval.Scope, error) {
	var offered []approval.Preview
	for _, p := range rec.Previews {
		if p.Unavailable == "" {
			offered = append(offered, p)
		}
	}
	lines := []string{"Remember for the agent " + app.Visible(rec.Agent) + ":"}
	for i, p := range offered {
		for _, e := range p.Lines() {
			lines = append(lines, fmt.Sprintf("  %d  %-11s %s", i+1, p.Scope, e))
		}
	}
	if err := q.say(lines...); err != nil {
		return "", err
	}
	for {
		said, err := q.read(ctx, fmt.Sprintf("1 to %d, or [b]ack: ", len(offered)))
		if err != nil {
			return "", err
		}
		if said == "b" || said == "back" {
			return "", nil
		}
		for i, p := range offered {
			if said == fmt.Sprint(i+1) || said == string(p.Scope) {
				return p.Scope, nil
			}
		}
	}
}
