package approval

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Preview has the rules that AllowAlways would remember in a scope.
type Preview struct {
	Scope   Scope         `json:"scope"`
	Entries []policy.Rule `json:"entries,omitempty"`
	// Unavailable says why nothing can be remembered in this scope; empty if
	// it can.
	Unavailable string `json:"unavailable,omitempty"`
}

// Previews returns the rules that would be remembered for a command, for every scope.
// Again decides on the command with further rules, to check that they would allow it; nil:
// that is not checked.
func Previews(req policy.Request, d policy.Decision, again func([]policy.Rule) policy.Decision) []Preview {
	previews := make([]Preview, len(Scopes))
	for i, scope := range Scopes {
		p := &previews[i]
		p.Scope = scope
		entries, err := Remember(req, d, scope)
		if err != nil {
			p.Unavailable = err.Error()
			continue
		}
		if again != nil {
			if d := again(entries); d.Outcome != policy.Allowed {
				p.Unavailable = "it would be asked about all the same: " + oneLine(d.Reason, 200)
				continue
			}
		}
		p.Entries = entries
	}
	return previews
}

// Remember makes rules that allow the command, and others like it as far as the scope
// says. Programs that are allowed already get no rule. If no rules allow just that, it
// returns an ErrDenied with the reason.
func Remember(req policy.Request, d policy.Decision, scope Scope) ([]policy.Rule, error) {
	if !slices.Contains(Scopes, scope) {
		return nil, corral.Errorf(corral.ErrInvalid, "use exact, subcommand or program", "%s is no scope", quote(string(scope)))
	}
	for _, s := range d.Segments {
		if s.Refused != "" {
			return nil, no("no rule can be made of %s: %s", quote(s.Text), s.Refused)
		}
		if s.Unbound != "" {
			return nil, no("what %s runs would not be part of a rule: %s", quote(s.Text), s.Unbound)
		}
	}
	env := missingVariables(d)
	// A finding is refused for all programs, so only the whole command can be allowed.
	for _, f := range d.Findings {
		if !f.Passes {
			why := "it " + oneLine(f.Reason, 200)
			if scope != ScopeExact && (f.Kind == policy.Chaining || f.Kind == policy.Background) {
				why += "; with tools.exec.allowlist.chaining: each its parts can be remembered, one by one"
			}
			return exactly(req, d, scope, env, why)
		}
	}
	var rules []policy.Rule
	for _, s := range d.Segments {
		if s.By == "builtin" || s.By == "wrapper" || s.By != "" && env == nil {
			continue
		}
		if s.Builtin {
			return exactly(req, d, scope, env, s.Argv[0]+" is a builtin of the shell, which no rule can name")
		}
		if i := slices.IndexFunc(s.Words, dynamic); i > 0 && scope == ScopeExact {
			return exactly(req, d, scope, env, "what "+quote(s.Words[i].Text)+" is can only be told by running it")
		}
		r, err := remembered(s, scope)
		if err != nil {
			return nil, err
		}
		r.Env = env
		if !slices.ContainsFunc(rules, func(have policy.Rule) bool { return fingerprint(have) == fingerprint(r) }) {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return exactly(req, d, scope, env, "each program of it is allowed already; "+oneLine(d.Reason, 200))
	}
	return rules, nil
}

// missingVariables are entries of Rule.Env for the variables of the call that nothing
// allows, with their values.
func missingVariables(d policy.Decision) []string {
	var env []string
	for _, v := range d.Variables {
		if v.By == "" {
			env = append(env, policy.EnvEntry(v))
		}
	}
	return env
}

func dynamic(w policy.Word) bool { return !w.Static }

func no(format string, args ...any) error {
	return corral.Errorf(corral.ErrDenied, "allow it once, or write a rule by hand", format, args...)
}

// remembered is the rule for a segment.
func remembered(s policy.Segment, scope Scope) (policy.Rule, error) {
	r := policy.Rule{Action: policy.Allow}
	switch why := unwritable(s.Path); {
	case s.Path == "":
		return r, no("it cannot be told which program %s is", quote(s.Text))
	case why != "":
		return r, no("the path %s has %s, which no rule can name", quote(s.Path), why)
	case scope != ScopeExact && s.Inline != "":
		return r, no("%s, so only exactly this use can be remembered", s.Inline)
	case scope != ScopeExact && s.Script != "":
		return r, no("%s runs the script %s, so only exactly this use can be remembered, with the script as it is now", s.Path, quote(s.Script))
	case s.Script != "" && s.SHA256 == "":
		return r, no("the script %s could not be read", quote(s.Script))
	}
	switch scope {
	case ScopeProgram:
		r.Pattern = policy.QuotePattern(s.Path)
	case ScopeSubcommand:
		if len(s.Argv) < 2 || len(s.Words) > 1 && !s.Words[1].Static {
			return r, no("%s has no first argument that can be told", s.Path)
		}
		sub := s.Argv[1]
		if why := unwritable(sub); why != "" {
			return r, no("the argument %s has %s, which no rule can name", quote(sub), why)
		}
		if sub == "" || strings.HasPrefix(sub, "-") || strings.ContainsAny(sub, `/\`) {
			return r, no("the argument %s of %s is no subcommand", quote(sub), s.Path)
		}
		r.Pattern = policy.QuotePattern(s.Path, sub)
	case ScopeExact:
		r.Pattern, r.Args, r.SHA256 = policy.QuotePattern(s.Path), []string{}, s.SHA256
		if len(s.Argv) > 1 {
			r.Args = slices.Clone(s.Argv[1:])
		}
	}
	return r, nil
}

// exactly is the rule for the text of a command. Such a rule has no digests of files, so
// it is made only for text that always names the same files.
func exactly(req policy.Request, d policy.Decision, scope Scope, env []string, why string) ([]policy.Rule, error) {
	if scope != ScopeExact {
		return nil, no("only exactly this command can be remembered: %s", why)
	}
	for _, v := range d.Variables { // rules of its programs do not allow them for the whole command
		if v.By == "rule" {
			env = append(env, policy.EnvEntry(v))
		}
	}
	if strings.TrimSpace(req.Command) == "" {
		return nil, no("it cannot be remembered: %s", why)
	}
	for _, s := range d.Segments {
		switch {
		case s.Script != "":
			return nil, no("%s; and the script %s that it runs may be another one the next time", why, quote(s.Script))
		case s.Builtin && (s.Argv[0] == "." || s.Argv[0] == "source"):
			return nil, no("%s; and which file %s reads can only be told by running it", why, s.Argv[0])
		case len(s.Words) > 0 && !s.Words[0].Static:
			return nil, no("which program %s is can only be told by running it", quote(s.Words[0].Text))
		case len(s.Argv) > 0 && strings.Contains(s.Argv[0], "/") && !filepath.IsAbs(s.Argv[0]):
			return nil, no("%s; and %s is another program in another directory", why, quote(s.Argv[0]))
		}
	}
	return []policy.Rule{{Action: policy.Allow, Command: req.Command, Env: env}}, nil
}

// unwritable says which characters of a word cannot stand for themselves in a pattern.
func unwritable(word string) string {
	switch {
	case strings.ContainsAny(word, "*?"):
		return "a wildcard"
	case strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "characters that cannot be seen"
	}
	return ""
}
