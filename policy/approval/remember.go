package approval

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Preview is what AllowAlways would remember.
type Preview struct {
	Scope   Scope         `json:"scope"`
	Entries []policy.Rule `json:"entries,omitempty"`
	// Unavailable says why nothing can be remembered in this scope; empty if
	// it can.
	Unavailable string `json:"unavailable,omitempty"`
}

// Previews returns what would be remembered of a command, for every scope.
func Previews(req policy.Request, d policy.Decision) []Preview {
	previews := make([]Preview, len(Scopes))
	for i, scope := range Scopes {
		previews[i].Scope = scope
		entries, err := Remember(req, d, scope)
		if err != nil {
			previews[i].Unavailable = err.Error()
			continue
		}
		previews[i].Entries = entries
	}
	return previews
}

// Remember makes rules that allow the command, or as much like it as the scope
// says, from now on. Nothing is remembered of programs that are allowed already.
// It is an ErrDenied, with the reason, if there are no rules that would do that
// and nothing else.
func Remember(req policy.Request, d policy.Decision, scope Scope) ([]policy.Rule, error) {
	no := func(format string, args ...any) error {
		return corral.Errorf(corral.ErrDenied, "allow it once, or write a rule by hand", format, args...)
	}
	if i := slices.IndexFunc(d.Segments, func(s policy.Segment) bool { return s.Refused }); i >= 0 {
		return nil, no("%s can never be allowed by a rule: %s", quote(d.Segments[i].Text), d.Segments[i].Reason)
	}
	// What is found in the command is refused whatever its programs are: only
	// the command as a whole can be allowed.
	if len(d.Findings) > 0 {
		f := d.Findings[0]
		return exactly(req, d, scope, oneLine(string(f.Kind)+": "+f.Reason, 200), no)
	}
	var rules []policy.Rule
	for _, s := range d.Segments {
		if s.By != "" && s.Reason == "" {
			continue
		}
		if s.Path == "" {
			return nil, no("it cannot be told which program %s is", quote(s.Text))
		}
		if why := unwritable(s.Path); why != "" {
			return nil, no("the path %s has %s, which a rule cannot have", quote(s.Path), why)
		}
		if s.Inline != "" && scope != ScopeExact {
			return nil, no("%s is given code (%s): only exactly this use can be remembered", s.Path, s.Inline)
		}
		if s.Script != "" && scope != ScopeExact {
			return nil, no("%s runs a script: only exactly this use can be remembered, with the script as it is now", s.Path)
		}
		if i := slices.IndexFunc(s.Words, func(w policy.Word) bool { return !w.Static }); i >= 0 && scope == ScopeExact {
			return exactly(req, d, scope, "what "+quote(s.Words[i].Text)+" is cannot be told without running it", no)
		}
		r, err := remembered(s, scope, no)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(rules, func(have policy.Rule) bool { return fingerprint(have) == fingerprint(r) }) {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil, no("every program in it is allowed already; it is asked about for another reason: %s", oneLine(d.Reason, 200))
	}
	return rules, nil
}

// remembered is the rule for a segment.
func remembered(s policy.Segment, scope Scope, no func(string, ...any) error) (policy.Rule, error) {
	r := policy.Rule{Action: policy.Allow, Pattern: s.Path}
	switch scope {
	case ScopeProgram:
	case ScopeSubcommand:
		if len(s.Argv) < 2 {
			return r, no("%s has no argument: remember this use or the program", s.Path)
		}
		sub := s.Argv[1]
		if len(s.Words) > 1 && !s.Words[1].Static {
			return r, no("what the argument %s is cannot be told without running it", quote(sub))
		}
		if sub == "" || strings.HasPrefix(sub, "-") || strings.ContainsAny(sub, `/\`) {
			return r, no("the argument %s of %s is no subcommand", quote(sub), s.Path)
		}
		if why := unwritable(sub); why != "" {
			return r, no("the argument %s has %s, which a rule cannot have", quote(sub), why)
		}
		r.Pattern += " " + sub
	case ScopeExact:
		r.Args = []string{}
		if len(s.Argv) > 1 {
			r.Args = slices.Clone(s.Argv[1:])
		}
		if s.Script != "" && s.SHA256 == "" {
			return r, no("the script %s could not be read", quote(s.Script))
		}
		r.SHA256 = s.SHA256
	default:
		return r, corral.Errorf(corral.ErrInvalid, "use exact, subcommand or program", "%s is no scope", quote(string(scope)))
	}
	return r, nil
}

// exactly is the rule for the text of a command. It does not see files, so it is
// only for what always means the same ones.
func exactly(req policy.Request, d policy.Decision, scope Scope, why string, no func(string, ...any) error) ([]policy.Rule, error) {
	if scope != ScopeExact {
		return nil, no("only exactly this command can be remembered (%s)", why)
	}
	if strings.TrimSpace(req.Command) == "" {
		return nil, no("it cannot be remembered (%s)", why)
	}
	for _, s := range d.Segments {
		switch {
		case s.Script != "":
			return nil, no("it runs the script %s, and cannot be remembered together with what that says now (%s)", quote(s.Script), why)
		case len(s.Words) > 0 && !s.Words[0].Static:
			return nil, no("which program %s is cannot be told without running it", quote(s.Words[0].Text))
		case len(s.Argv) > 0 && strings.Contains(s.Argv[0], "/") && !filepath.IsAbs(s.Argv[0]):
			return nil, no("%s is another program in another directory (%s)", quote(s.Argv[0]), why)
		}
	}
	return []policy.Rule{{Action: policy.Allow, Command: req.Command}}, nil
}

// unwritable says what a word has that cannot be written in a pattern.
func unwritable(word string) string {
	switch {
	case strings.ContainsAny(word, "*?"):
		return "a wildcard"
	case strings.ContainsFunc(word, unicode.IsSpace):
		return "white space"
	case strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "characters that cannot be seen"
	case strings.HasPrefix(word, "~"):
		return "a tilde"
	}
	return ""
}
