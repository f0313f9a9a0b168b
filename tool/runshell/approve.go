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
	Reason  string // why it needs a decision

	Parts    []string // the commands in it that need the decision
	Programs []string // their programs, without directories

	// Remember lists the commands that AllowAlways would allow while the Tool
	// exists: commands as written; or with " *" at the end, all commands that begin
	// with the text before it. Parts that cannot be remembered are asked about again.
	Remember []string
}

// Answer is the answer of a person. The set is closed.
type Answer string

const (
	AllowOnce   Answer = "allow-once"
	AllowAlways Answer = "allow-always" // also allow Request.Remember from now on
	DenyOnce    Answer = "deny"
)

// requireApproval asks the Approver about a command, unless v allows it. If the command
// may not run, it returns an ErrDenied.
func (t *Tool) requireApproval(ctx context.Context, in Input, v Verdict) error {
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

// approvals are the commands that are allowed while the Tool exists.
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

// subcommands has the programs with subcommands, and the number of words of these: two in
// docker compose up. Options before a subcommand are not skipped.
var subcommands = map[string]int{
	"apt": 1, "apt-get": 1, "brew": 1, "bundle": 1, "cargo": 1, "composer": 1, "docker": 1, "docker compose": 2, "dotnet": 1,
	"gh": 2, "git": 1, "go": 1, "go mod": 2, "helm": 1, "kubectl": 1, "npm": 1, "npm run": 2, "pip": 1, "pip3": 1, "pnpm": 1,
	"pnpm run": 2, "podman": 1, "podman compose": 2, "poetry": 1, "rustup": 1, "systemctl": 1, "terraform": 1, "uv": 1, "yarn": 1,
	"yarn run": 2,
}

// narrowest is the rule to remember for a command: for a program with subcommands, the
// same subcommand; otherwise exactly the same words. If a word is known only when the
// command runs, nothing is remembered.
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
