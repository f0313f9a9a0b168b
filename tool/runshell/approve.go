package runshell

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// An Approver asks a person whether a command may run. It returns when there is an
// answer; an error is a denial, which says why.
type Approver func(ctx context.Context, r Request) (Answer, error)

// A Request is a command that a person has to decide on.
type Request struct {
	Input   Input
	Display string // the command for people; see Input.Display
	Reason  string // why it is asked about

	Parts    []string // the commands in it that it is about
	Programs []string // of these, without their directories

	// Remember is what AllowAlways would allow for as long as there is the
	// Tool: commands as written, or all that begin with what is before a " *".
	// Parts that cannot be remembered are asked about again.
	Remember []string
}

// Answer is what a person decides. The set is closed.
type Answer string

const (
	AllowOnce   Answer = "allow-once"
	AllowAlways Answer = "allow-always" // and Request.Remember from now on
	DenyOnce    Answer = "deny"
)

// settle asks about a command that is to be asked about. The error is
// ErrDenied.
func (t *Tool) settle(ctx context.Context, in Input, v Verdict) error {
	if v.Outcome == policy.Allowed {
		return nil
	}
	if t.cfg.Approve == nil {
		return corral.Errorf(corral.ErrDenied, "add it to coreTools, as run_shell_command(PREFIX)", "%s", v.Reason)
	}
	r := Request{Input: in, Display: in.Display(), Reason: v.Reason, Parts: v.Parts}
	var remembered []rule
	for _, p := range v.missing {
		if name := path.Base(p.Words[0].Text); !slices.Contains(r.Programs, name) {
			r.Programs = append(r.Programs, name)
		}
		if rule, text, ok := narrowest(p.Words); ok && !slices.Contains(r.Remember, text) {
			remembered = append(remembered, rule)
			r.Remember = append(r.Remember, text)
		}
	}
	answer, err := t.cfg.Approve(ctx, r)
	switch {
	case err != nil:
		return corral.Errorf(corral.ErrDenied, corral.Hint(err), "the command was not approved: %w", err)
	case answer == AllowAlways:
		t.approved.add(remembered)
		return nil
	case answer == AllowOnce:
		return nil
	case answer == DenyOnce:
		return corral.Errorf(corral.ErrDenied, "do something else, or ask what is wrong with it", "the user denied the command")
	}
	return corral.Errorf(corral.ErrDenied, fmt.Sprintf("answer %s, %s or %s", AllowOnce, AllowAlways, DenyOnce), "the command was not approved: %q is no answer", string(answer))
}

// approvals are what was allowed for as long as there is the Tool.
type approvals struct {
	mu   sync.Mutex
	list []rule
}

// maxApprovals bounds how many rules are remembered.
const maxApprovals = 1000

func (a *approvals) add(list []rule) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, list...)
	a.list = a.list[max(0, len(a.list)-maxApprovals):]
}

func (a *approvals) allow(words []policy.Word) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return rules{list: a.list}.allows(words)
}

// subcommands has the programs whose first arguments say what they do, and how many
// do: two in docker compose up. Options before these are not looked through.
var subcommands = map[string]int{
	"apt": 1, "apt-get": 1, "brew": 1, "bundle": 1, "cargo": 1, "composer": 1, "docker": 1, "docker compose": 2, "dotnet": 1,
	"gh": 2, "git": 1, "go": 1, "go mod": 2, "helm": 1, "kubectl": 1, "npm": 1, "npm run": 2, "pip": 1, "pip3": 1, "pnpm": 1,
	"pnpm run": 2, "podman": 1, "podman compose": 2, "poetry": 1, "rustup": 1, "systemctl": 1, "terraform": 1, "uv": 1, "yarn": 1,
	"yarn run": 2,
}

// narrowest is the rule to remember for a command: the same subcommand of a
// program that has such, and else the very same words. What can only be told by
// running it is not remembered.
func narrowest(words []policy.Word) (r rule, text string, ok bool) {
	for _, w := range words {
		if strings.Contains(w.Text, sep) || !w.Static {
			return rule{}, "", false
		}
	}
	all := texts(words)
	n := subcommands[all[0]]
	if len(all) > 1 {
		n = max(n, subcommands[all[0]+" "+all[1]])
	}
	if n == 0 || len(all) <= n+1 || slices.ContainsFunc(all[1:n+1], notSubcommand) {
		return rule{words: all, exact: true}, policy.QuotePattern(all...), true
	}
	return rule{words: all[:n+1]}, strings.Join(all[:n+1], " ") + " *", true
}

// notSubcommand reports whether an argument is an option, a path or the like.
func notSubcommand(arg string) bool {
	return arg == "" || strings.Trim(arg, "abcdefghijklmnopqrstuvwxyz0123456789-:_") != "" || arg[0] == '-'
}
