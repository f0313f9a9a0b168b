// Package report lays out for people what a gateway says of a command: whether it may run,
// where, why, and what to do about it.
package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A Look is how text is laid out: in so many columns (0: nothing is broken),
// and with colours or without.
type Look struct {
	Width   int
	Colours bool
}

// A page is text under way.
type page struct {
	Look
	b strings.Builder
}

func (l Look) In(s cmdline.Style, text string) string {
	if !l.Colours || s == cmdline.Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// row is a label and a text, which is broken beside it.
func (p *page) row(indent, column int, label string, s cmdline.Style, text string) {
	lines := []string{approval.Visible(text)}
	if p.Width > 0 {
		lines = cmdline.Wrap(lines[0], max(p.Width-indent-column, 20))
	}
	p.rows(indent, column, label, s, lines)
}

// commandRow is a row with a command, in which every space counts.
func (p *page) commandRow(indent, column int, label string, s cmdline.Style, text string) {
	p.rows(indent, column, label, s, []string{approval.Visible(text)})
}

func (p *page) rows(indent, column int, label string, s cmdline.Style, lines []string) {
	for i, line := range lines {
		if i > 0 {
			label = ""
		}
		pad := max(column-runewidth.StringWidth(label), 0)
		fmt.Fprintf(&p.b, "%*s%s%*s%s\n", indent, "", p.In(cmdline.Dim, label), pad, "", p.In(s, line))
	}
}

func (p *page) heading(text string) { fmt.Fprintf(&p.b, "\n%s\n", p.In(cmdline.Bold, text)) }

var outcomeStyle = map[policy.Outcome]cmdline.Style{policy.Allowed: cmdline.Green, policy.Asked: cmdline.Yellow, policy.Denied: cmdline.Red}

// Columns of labels.
const (
	columnFacts = 13
	columnDeep  = 13
)

// Report is all about a command, for people. The first line has the answer.
func (l Look) Report(r api.Report) string {
	p := &page{Look: l}
	fmt.Fprintf(&p.b, "%s  %s\n", p.In(outcomeStyle[r.Outcome]+";"+cmdline.Bold, string(r.Outcome)), approval.Visible(r.Reason))
	p.facts(r)
	if r.Guarded {
		p.segments(r.Decision)
		p.variables(r.Decision)
		p.findings(r.Decision.Findings)
		p.pinned(r)
	}
	if len(r.Fix) > 0 && r.Outcome != policy.Allowed {
		p.heading("to allow it")
		for _, fix := range r.Fix {
			p.row(2, 0, "", cmdline.Plain, fix)
		}
		prompt := "$ "
		if r.OnNode {
			prompt = approval.Visible(r.Route.Node) + prompt
		}
		for _, c := range r.Commands { // as they can be pasted
			fmt.Fprintf(&p.b, "  %s\n", p.In(cmdline.Bold, prompt+approval.Visible(c)))
		}
	}
	if len(r.Previews) > 0 {
		p.previews(r.Previews)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(&p.b)
		p.row(0, 0, "", cmdline.Yellow, w)
	}
	if r.FromFiles {
		fmt.Fprintln(&p.b)
		p.row(0, 0, "", cmdline.Dim, "No gateway was asked: this is what one would say that is started here now. What corral exec runs without a gateway is the operator's own, and meets no policy.")
	}
	return p.b.String()
}

// pinned is what would be executed in the place of the command, if that is not
// what was written.
func (p *page) pinned(r api.Report) {
	run := r.Decision.Run
	if run == nil || r.Decision.Security.Value == policy.SecurityFull || r.Outcome == policy.Denied {
		return
	}
	lines := []string{approval.Visible(commandLine(run.Args))}
	if len(run.Args) == 3 && len(r.Shell) > 0 && run.Args[0] == r.Shell[0] && run.Args[1] == "-c" { // quoted twice nobody can read it
		lines = strings.Split(run.Args[2], "\n")
		for i, line := range lines {
			lines[i] = approval.Visible(line)
		}
		lines[len(lines)-1] += "  (by " + approval.Visible(run.Args[0]) + " -c)"
	}
	fmt.Fprintln(&p.b)
	p.rows(2, columnFacts, "would run", cmdline.Plain, lines)
}

// facts are where a command would run, and by which settings.
func (p *page) facts(r api.Report) {
	fmt.Fprintln(&p.b)
	p.row(2, columnFacts, "agent", cmdline.Plain, r.Agent)
	if r.Route.Host != "" {
		p.row(2, columnFacts, "where", cmdline.Plain, routeText(r.Route))
	}
	if r.Cwd != "" {
		p.row(2, columnFacts, "directory", cmdline.Plain, r.Cwd)
	}
	if len(r.Shell) > 0 && r.Command != "" {
		p.row(2, columnFacts, "shell", cmdline.Plain, strings.Join(r.Shell, " "))
	}
	d := r.Decision
	if !r.Guarded || d.Security.Value == "" {
		return
	}
	if e := d.Enforce; e != nil && d.Security.Value == policy.SecurityAllowlist {
		defer p.enforced(e)
	}
	for _, s := range [][3]string{
		{"security", string(d.Security.Value), d.Security.Source.String()},
		{"ask", string(d.Ask.Value), d.Ask.Source.String()},
		{"askFallback", string(d.AskFallback.Value), d.AskFallback.Source.String()},
	} {
		fmt.Fprintf(&p.b, "  %s%*s%-9s  %s\n", p.In(cmdline.Dim, s[0]), columnFacts-len(s[0]), "", s[1], p.In(cmdline.Dim, approval.Visible(s[2])))
	}
}

// enforced is what the kernel is to enforce.
func (p *page) enforced(e *policy.Enforcement) {
	text := "nothing: " + e.Reason
	if d := e.Domain; d != nil {
		programs, files := "only the programs that are named below", "files are written only in "+strings.Join(d.Writable, ", ")
		if d.AnyProgram {
			programs = "any program"
		}
		if d.AnyFile {
			files = "files are written anywhere"
		}
		text = programs + "; " + files
	}
	p.row(2, columnFacts, "enforce", cmdline.Plain, fmt.Sprintf("%-9s  %s", e.Setting.Value, text))
	for _, w := range e.Warnings {
		p.row(2, columnFacts, "", cmdline.Yellow, w)
	}
}

// leewayText is what else a program may run.
func leewayText(l policy.Leeway) string {
	switch l.Runs {
	case policy.RunsAny:
		return "any program: " + l.Why
	case "none":
		return "no other program: " + l.Why
	}
	return strings.Join(l.Programs, ", ") + ": " + l.Why
}

var routeReasons = map[corral.RouteReason]string{
	corral.RouteDefault:    "which is the default",
	corral.RouteConfigured: "by tools.exec.host or /exec",
	corral.RouteRequested:  "as the call asks for",
	corral.RouteElevated:   "as elevated",
	corral.RouteSandboxOff: "since the sandbox is off",
}

func routeText(r corral.Route) string {
	place := "the gateway's machine"
	switch {
	case r.Sandboxed && r.Host == corral.HostNode:
		place = "a sandbox on the node " + r.Node
	case r.Sandboxed:
		place = "a sandbox"
	case r.Host == corral.HostNode && r.Node != "":
		place = "the node " + r.Node
	case r.Host == corral.HostNode:
		place = "the only node"
	}
	text := place
	if why := routeReasons[r.Reason]; why != "" {
		text += ", " + why
	}
	if r.Guarded && r.Sandboxed {
		return text + "; only the gateway's policy applies"
	}
	if r.Guarded {
		return text + "; policy and approvals apply"
	}
	return text + "; no policy applies"
}

// variables are those that the call sets; their values are not shown.
func (p *page) variables(d policy.Decision) {
	if len(d.Variables) == 0 || d.Security.Value != policy.SecurityAllowlist {
		return
	}
	fmt.Fprintln(&p.b)
	for _, v := range d.Variables {
		s := cmdline.Green
		if v.By == "" {
			s = cmdline.Yellow
		}
		p.row(2, columnFacts, "variable", s, approval.VariableText(v))
	}
}

func (p *page) segments(d policy.Decision) {
	for i, s := range d.Segments {
		number := fmt.Sprintf("%d  ", i+1)
		fmt.Fprintln(&p.b)
		if s.Depth > 0 {
			number += strings.Repeat("  ", s.Depth)
		}
		text := s.Text
		if len(s.Wrappers) > 0 { // as written it is that of the wrapper
			text = commandLine(s.Argv)
		}
		p.commandRow(2, len(number), number, cmdline.Bold, text)
		in := 2 + len(number)
		if len(s.Wrappers) > 0 {
			p.row(in, columnDeep, "through", cmdline.Plain, strings.Join(s.Wrappers, ", "))
		}
		switch {
		case s.Path != "" && s.RealPath != "" && s.RealPath != s.Path:
			p.row(in, columnDeep, "program", cmdline.Plain, s.Path+" → "+s.RealPath)
		case s.Path != "":
			p.row(in, columnDeep, "program", cmdline.Plain, s.Path)
		}
		if s.Script != "" {
			digest := ""
			if s.SHA256 != "" {
				digest = "  sha256 " + s.SHA256[:min(16, len(s.SHA256))] + "…"
			}
			p.row(in, columnDeep, "script", cmdline.Plain, s.Script+digest)
		}
		for _, beware := range []string{s.Inline, s.Unbound} {
			if beware != "" {
				p.row(in, columnDeep, "beware", cmdline.Plain, beware)
			}
		}
		p.verdict(in, s)
		if s.Leeway != nil {
			p.row(in, columnDeep, "may run", cmdline.Plain, leewayText(*s.Leeway))
		}
	}
}

// verdict is what becomes of a segment.
func (p *page) verdict(in int, s policy.Segment) {
	switch {
	case s.Rule != nil && s.Rule.Action != policy.Allow:
		p.row(in, columnDeep, "rule", outcomeStyle[policy.Outcome(s.Rule.Action)], sourcedRule(*s.Rule))
	case s.By == "rule" && s.Rule != nil:
		p.row(in, columnDeep, "allowed", cmdline.Green, sourcedRule(*s.Rule))
	case s.By != "":
		p.row(in, columnDeep, "allowed", cmdline.Green, map[string]string{
			"safe bin": "a safe bin, used as one", "builtin": "harmless, and of the shell itself", "wrapper": "it does nothing but run what comes next",
		}[s.By])
	case s.Refused != "":
		p.row(in, columnDeep, "refused", cmdline.Red, s.Refused)
	case s.Reason != "":
		p.row(in, columnDeep, "not allowed", cmdline.Yellow, s.Reason)
	}
}

// sourcedRule is a rule, and where it is written.
func sourcedRule(r policy.Rule) string {
	text := string(r.Action) + " " + approval.RuleText(r)
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	if from := r.Source.String(); from != "" {
		text += "  " + from
	}
	return text
}

func (p *page) findings(list []policy.Finding) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(&p.b)
	for _, f := range list {
		s, verdict := cmdline.Yellow, "refused in allowlist mode"
		if f.Passes {
			s, verdict = cmdline.Green, "let through"
		}
		text := f.Reason
		if f.Text != "" {
			text = fmt.Sprintf("%s %s", f.Text, f.Reason)
		}
		p.row(2, columnDeep, string(f.Kind), s, text+"; "+verdict)
	}
}

func (p *page) previews(list []approval.Preview) {
	none := !slices.ContainsFunc(list, func(v approval.Preview) bool { return v.Unavailable != list[0].Unavailable })
	if none && list[0].Unavailable != "" {
		p.heading("allow-always would remember nothing")
		p.row(2, 0, "", cmdline.Plain, list[0].Unavailable)
		return
	}
	p.heading("allow-always would remember")
	for _, v := range list {
		label := string(v.Scope)
		if v.Unavailable != "" {
			p.row(2, columnDeep, label, cmdline.Dim, "nothing: "+v.Unavailable)
		}
		for _, r := range v.Entries {
			p.row(2, columnDeep, label, cmdline.Plain, sourcedRule(r))
			label = ""
		}
	}
}

// commandLine is a program and its arguments as a shell reads them.
func commandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = words.Quote(arg)
	}
	return strings.Join(quoted, " ")
}

// Environment is what a command is started with.
func (l Look) Environment(r api.Report) string {
	p := &page{Look: l}
	d := r.Environment
	if d == nil {
		why := "Its environment cannot be told from here."
		if r.Route.Sandboxed {
			why = "In a sandbox it gets its image's variables and nothing of the gateway's environment. PATH is the login profile's, with pathPrepend and the call's before it."
		}
		p.row(0, 0, "", cmdline.Plain, why)
		return p.b.String()
	}
	column := 0
	for _, e := range d.Path {
		column = max(column, runewidth.StringWidth(approval.Visible(e.Dir)))
	}
	for _, v := range d.Variables {
		column = max(column, runewidth.StringWidth(approval.Visible(v.Name)))
	}
	for _, v := range d.Dropped {
		column = max(column, runewidth.StringWidth(approval.Visible(v.Name)))
	}
	column += cmdline.ColumnGap
	entry := func(left, right string) {
		left = approval.Visible(left)
		fmt.Fprintf(&p.b, "  %s%*s%s\n", left, max(column-runewidth.StringWidth(left), 1), "", p.In(cmdline.Dim, approval.Visible(right)))
	}
	fmt.Fprintln(&p.b, p.In(cmdline.Bold, "PATH, in order"))
	for _, e := range d.Path {
		entry(e.Dir, originText[e.Origin])
	}
	p.heading(fmt.Sprintf("variables: %d", len(d.Variables)))
	for _, v := range d.Variables {
		text := originText[v.Origin]
		switch {
		case v.Secret:
			text += ", not shown"
		case v.Value != nil && v.Origin != pathenv.OriginMerged:
			text += ": " + *v.Value
		}
		entry(v.Name, text)
	}
	if len(d.Dropped) > 0 {
		p.heading(fmt.Sprintf("left out: %d", len(d.Dropped)))
		for _, v := range d.Dropped {
			entry(v.Name, "of "+string(v.Source)+": "+string(v.Reason))
		}
	}
	return p.b.String()
}

var originText = map[pathenv.Origin]string{
	pathenv.OriginPrepend: "pathPrepend", pathenv.OriginCall: "the call", pathenv.OriginConfig: "the configuration",
	pathenv.OriginLogin: "the login shell", pathenv.OriginDaemon: "the gateway's own", pathenv.OriginImage: "the image",
	pathenv.OriginCorral: "Corral", pathenv.OriginMerged: "as above",
}
