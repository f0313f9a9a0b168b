package approval

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// Visible is text on one line in which nothing is hidden from a person who approves a
// command. Characters without a visible shape are shown as \u{…}, and bytes that are no
// characters as \x{…}.
func Visible(text string) string {
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x{%02x}`, text[i])
		case !unicode.IsPrint(r), shapeless(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shapeless reports whether a character that counts as printable cannot be seen:
// fillers, joiners and selectors.
func shapeless(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800'
}

// short is the beginning of a text on one line.
func short(text string) string {
	const most = 120
	r := []rune(Visible(strings.Join(strings.Fields(text), " ")))
	if len(r) > most {
		r = append(r[:most-1:most-1], '…')
	}
	return string(r)
}

// mostShown is how many bytes of a command a request for an approval shows.
const mostShown = 4000

// whole is the lines of a text, without its middle if it is longer than mostShown.
func whole(text string) []string {
	if len(text) > mostShown {
		head, tail := words.Ends(text, mostShown)
		text = fmt.Sprintf("%s\n(%d bytes are left out here: corral approvals show --json has them)\n%s", head, len(text)-len(head)-len(tail), tail)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		lines = append(lines, Visible(line))
	}
	return lines
}

// indented indents lines below a heading, so that none of them looks like a heading.
func indented(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}

// About describes, line by line, the command, where it would run, and why it needs an
// approval. Every character is visible.
func (r Record) About() []string {
	lines := append([]string{"Command:"}, indented(whole(r.Text()))...)
	if r.Description != "" {
		lines = append(lines, "For:       "+short(r.Description)+" (says its caller)")
	}
	lines = append(lines, "Host:      "+Visible(r.Place()), "Directory: "+Visible(r.Cwd))
	for i, name := range r.Env {
		heading := "Variables:"
		if i > 0 {
			heading = "          "
		}
		lines = append(lines, heading+" "+Visible(r.variable(name)))
	}
	if len(r.PathPrepend) > 0 {
		lines = append(lines, "PATH:      first "+Visible(strings.Join(r.PathPrepend, ", ")))
	}
	if r.Binding.Stdin {
		lines = append(lines, "Input:     what its caller writes to it while it runs")
	}
	lines = append(lines, "Why:       "+Visible(r.Decision.Reason))
	var programs []string
	for i, s := range r.Decision.Segments {
		if len(s.Argv) == 0 && s.Path == "" && s.Refused != "" {
			continue // programs were not looked up: the decision is on the text
		}
		if i == mostPrograms {
			programs = append(programs, fmt.Sprintf("and %d more", len(r.Decision.Segments)-i))
			break
		}
		programs = append(programs, programText(s))
	}
	if len(programs) > 0 {
		lines = append(append(lines, "Programs:"), indented(programs)...)
	}
	return lines
}

// variable describes a variable that the caller sets; see VariableText.
func (r Record) variable(name string) string {
	i := slices.IndexFunc(r.Decision.Variables, func(v policy.Variable) bool { return v.Name == name })
	if i < 0 {
		return name
	}
	return VariableText(r.Decision.Variables[i])
}

// VariableText is a variable, the beginning of the digest of its value, and what
// allows it or why nothing does.
func VariableText(v policy.Variable) string {
	text := fmt.Sprintf("%s (sha256 %s…", v.Name, v.SHA256[:min(12, len(v.SHA256))])
	if v.By != "" {
		return text + "; allowed: " + v.By + ")"
	}
	return text + "; " + v.Reason + ")"
}

// mostPrograms is how many programs of a command are listed.
const mostPrograms = 20

func programText(s policy.Segment) string {
	name := short(s.Text)
	if len(s.Argv) > 0 {
		name = short(s.Argv[0])
	}
	text := name + ": "
	switch {
	case s.Path == "":
		text += "not found, or only known when it runs"
	case s.RealPath != "" && s.RealPath != s.Path:
		text += Visible(s.Path) + ", which is " + Visible(s.RealPath)
	default:
		text += Visible(s.Path)
	}
	if len(s.Wrappers) > 0 {
		text += ", by " + Visible(strings.Join(s.Wrappers, " "))
	}
	if s.Script != "" {
		text += "; runs the script " + Visible(s.Script)
	}
	switch {
	case s.By != "":
		text += " (allowed: " + short(s.By) + ")"
	case s.Reason != "":
		text += " (" + short(s.Reason) + ")"
	}
	return text
}

// AboutAlways lists, line by line, the rules that AllowAlways would remember in each
// scope, or says why AllowAlways is not available.
func (r Record) AboutAlways() []string {
	if !slices.Contains(r.AllowedDecisions, AllowAlways) {
		return []string{"Always:    " + Visible(r.AlwaysUnavailable)}
	}
	lines := []string{"Always would remember, by scope:"}
	for _, p := range r.Previews {
		entries := p.Lines()
		if p.Unavailable != "" {
			entries = []string{"nothing: " + Visible(p.Unavailable)}
		}
		for i, e := range entries {
			heading := ""
			if i == 0 {
				heading = string(p.Scope)
			}
			lines = append(lines, fmt.Sprintf("  %-11s %s", heading, e))
		}
	}
	return lines
}

// Lines are the entries, one a line.
func (p Preview) Lines() []string {
	var lines []string
	for _, r := range p.Entries {
		lines = append(lines, RuleText(r))
	}
	return lines
}

// RuleText describes a rule on one line.
func RuleText(r policy.Rule) string {
	text := Visible(r.Pattern)
	switch {
	case r.Command != "" && strings.HasPrefix(r.Command, "sha256:"):
		text = "exactly one command, which is kept as " + Visible(r.Command)
	case r.Command != "":
		text = "exactly this command: " + short(r.Command)
	case r.Args != nil && len(r.Args) == 0:
		text += ", without arguments"
	case r.Args != nil:
		text += ", with exactly the arguments: " + Visible(policy.QuotePattern(r.Args...))
	case r.ArgPattern != "":
		text += ", with arguments like: " + Visible(r.ArgPattern)
	case len(strings.Fields(r.Pattern)) == 1 && r.Action == policy.Allow:
		text += ", with any arguments"
	}
	if len(r.Env) > 0 {
		text += ", also with " + envText(r.Env)
	}
	if r.SHA256 != "" {
		text += ", and the script as it is now (sha256 " + Visible(r.SHA256[:min(12, len(r.SHA256))]) + "…)"
	}
	return text
}

// envText describes the variables of a rule, with digests cut short.
func envText(env []string) string {
	var list []string
	for _, e := range env {
		name, digest, ok := strings.Cut(e, "=sha256:")
		if ok && len(digest) == 64 {
			e = name + " as it is now (sha256 " + digest[:12] + "…)"
		}
		list = append(list, Visible(e))
	}
	return strings.Join(list, ", ")
}

// Place is the host, and the node on it if there is one.
func (r Record) Place() string {
	if r.Node != "" {
		return string(r.Host) + ":" + r.Node
	}
	return string(r.Host)
}
