package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// visible is text on one line in which everything can be seen: who approves a
// command has to see what it is. What has no shape of its own is shown as
// \u{…}, and bytes that are no characters as \x{…}.
func visible(text string) string {
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

// brief is the beginning of a text on one line.
func brief(text string, columns int) string {
	return runewidth.Truncate(visible(strings.Join(strings.Fields(text), " ")), columns, "…")
}

// mostShown is how many bytes of a command are shown where one is asked about.
const mostShown = 4000

// whole is a text line by line, with its middle left out if it is too long to be
// read by anybody.
func whole(text string) []string {
	if len(text) > mostShown {
		head, tail := mostShown/2, len(text)-mostShown/2
		for !utf8.RuneStart(text[head]) {
			head--
		}
		for !utf8.RuneStart(text[tail]) {
			tail++
		}
		text = fmt.Sprintf("%s\n(%d bytes are left out here: corral approvals show --json has them)\n%s", text[:head], tail-head, text[tail:])
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		lines = append(lines, visible(line))
	}
	return lines
}

// indented puts lines below a heading. None of them can seem to be one.
func indented(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}

// describeApproval is all about an approval.
func describeApproval(rec approval.Record, now time.Time) []string {
	lines := []string{fmt.Sprintf("Approval %s (%s)", rec.Slug, rec.ID)}
	if rec.State == approval.Pending {
		lines = append(lines, fmt.Sprintf("State:     pending; expires in %s, at %s", ageText(rec.ExpiresAt.Sub(now)), rec.ExpiresAt.Local().Format(time.DateTime)))
	} else {
		lines = append(lines, "State:     "+string(rec.State)+": "+visible(rec.Settled()))
	}
	lines = append(lines, "Agent:     "+visible(rec.Agent))
	if rec.SessionKey != "" {
		lines = append(lines, "From:      "+visible(rec.SessionKey))
	}
	lines = append(lines, aboutCommand(rec)...)
	return append(lines, aboutAlways(rec)...)
}

// aboutCommand is what would run, and why that is asked about.
func aboutCommand(rec approval.Record) []string {
	lines := append([]string{"Command:"}, indented(whole(rec.Text()))...)
	lines = append(lines, "Host:      "+visible(placeOf(rec)), "Directory: "+visible(rec.Cwd))
	if len(rec.Env) > 0 {
		lines = append(lines, "Variables: "+visible(strings.Join(rec.Env, ", ")))
	}
	lines = append(lines, "Why:       "+visible(rec.Decision.Reason))
	var programs []string
	for i, s := range rec.Decision.Segments {
		if i == mostPrograms {
			programs = append(programs, fmt.Sprintf("and %d more", len(rec.Decision.Segments)-i))
			break
		}
		programs = append(programs, programText(s))
	}
	if len(programs) > 0 {
		lines = append(append(lines, "Programs:"), indented(programs)...)
	}
	return lines
}

// mostPrograms is how many programs of a command are listed.
const mostPrograms = 20

func programText(s policy.Segment) string {
	name := brief(s.Text, mostOfCommand)
	if len(s.Argv) > 0 {
		name = brief(s.Argv[0], mostOfCommand)
	}
	text := name + ": "
	switch {
	case s.Path == "":
		text += "not found, or only known when it runs"
	case s.RealPath != "" && s.RealPath != s.Path:
		text += visible(s.Path) + ", which is " + visible(s.RealPath)
	default:
		text += visible(s.Path)
	}
	if len(s.Wrappers) > 0 {
		text += ", by " + visible(strings.Join(s.Wrappers, " "))
	}
	if s.Script != "" {
		text += "; runs the script " + visible(s.Script)
	}
	switch {
	case s.By != "":
		text += " (allowed: " + s.By + ")"
	case s.Reason != "":
		text += " (" + brief(s.Reason, 2*mostOfCommand) + ")"
	}
	return text
}

// aboutAlways is what allow-always would remember.
func aboutAlways(rec approval.Record) []string {
	if !slices.Contains(rec.AllowedDecisions, approval.AllowAlways) {
		return []string{"Always:    " + visible(rec.AlwaysUnavailable)}
	}
	lines := []string{"Always would remember, by --scope:"}
	for _, p := range rec.Previews {
		entries := entriesText(p)
		if p.Unavailable != "" {
			entries = []string{"nothing: " + visible(p.Unavailable)}
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

func entriesText(p approval.Preview) []string {
	var lines []string
	for _, r := range p.Entries {
		lines = append(lines, ruleText(r))
	}
	return lines
}

// ruleText is what a rule is about, on one line.
func ruleText(r policy.Rule) string {
	text := visible(r.Pattern)
	switch {
	case r.Command != "" && strings.HasPrefix(r.Command, "sha256:"):
		return "exactly one command, which is kept as " + r.Command
	case r.Command != "":
		return "exactly this command: " + brief(r.Command, 2*mostOfCommand)
	case r.Args != nil && len(r.Args) == 0:
		text += ", without arguments"
	case r.Args != nil:
		text += ", with exactly the arguments: " + visible(policy.QuotePattern(r.Args...))
	case r.ArgPattern != "":
		text += ", with arguments like: " + visible(r.ArgPattern)
	case len(strings.Fields(r.Pattern)) == 1 && r.Action == policy.Allow:
		text += ", with any arguments"
	}
	if r.SHA256 != "" {
		text += ", and the script as it is now (sha256 " + r.SHA256[:min(12, len(r.SHA256))] + "…)"
	}
	return text
}

// sourceText is where a rule is written, short.
func sourceText(s policy.Source) string {
	if s.File == "" {
		return s.Name
	}
	return fmt.Sprintf("%s:%d", filepath.Base(s.File), s.Line)
}
