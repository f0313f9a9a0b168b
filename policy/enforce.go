package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/programs"
)

// Enforce says whether the kernel enforces what was decided about commands. The set
// is closed.
type Enforce string

const (
	EnforceRequire Enforce = "require" // if the kernel cannot enforce it, the command does not run
	EnforceTry     Enforce = "try"     // the command then runs all the same, and the result says so
	EnforceOff     Enforce = "off"
)

// Enforces are the values, the strictest first.
var Enforces = []Enforce{EnforceRequire, EnforceTry, EnforceOff}

// Valid reports whether e is one of the values.
func (e Enforce) Valid() bool { return slices.Contains(Enforces, e) }

// RunsAny, as the only entry of Rule.Runs or Rule.Writes, sets no limit.
const RunsAny = "any"

// An Enforcement says what the kernel is to enforce of a decision.
type Enforcement struct {
	Setting Setting[Enforce] `json:"setting"`
	// Domain is what the command may execute and write; nil: nothing is
	// enforced, and Reason says why.
	Domain *corral.Domain `json:"domain,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Warnings say which abilities the command loses by it, in complete sentences.
	Warnings []string `json:"warnings,omitempty"`
}

// A Leeway says which further programs a segment may run, and where it may write.
type Leeway struct {
	// Runs is "none", "any", or "some"; then Programs has the paths.
	Runs     string   `json:"runs"`
	Programs []string `json:"programs,omitempty"`
	// Writes are the paths that it may write beside the workspace and the directories
	// for temporary files; RunsAny: anywhere.
	Writes []string `json:"writes,omitempty"`
	// Why says where these limits come from, for people.
	Why string `json:"why"`
}

// The values of Leeway.Runs.
const (
	runsNone = "none"
	runsSome = "some"
)

// temporary are the directories for temporary files.
var temporary = []string{"/tmp", "/var/tmp"}

// enforce says what the kernel is to enforce for a command that may run; nil if
// enforcement is not configured.
func (j *judge) enforce(d *Decision) *Enforcement {
	e := &Enforcement{Setting: j.rules.Enforce}
	switch {
	case e.Setting.Value == "":
		return nil
	case e.Setting.Value == EnforceOff:
		e.Reason = "it is turned off (" + e.Setting.Source.String() + ")"
	case d.Security.Value != SecurityAllowlist:
		e.Reason = "security is not allowlist"
	case d.Miss:
		e.Reason = "no rule allows the command; if it is approved, it runs as it is"
	case j.whole:
		e.Reason = "a rule allows that very command, for what it is"
	case d.Run == nil:
		e.Reason = "its programs are not known"
	default:
		j.domain(d, e)
	}
	return e
}

// domain joins the limits of all segments into one domain. One shell runs the
// segments, so each may do what any of them may.
func (j *judge) domain(d *Decision, e *Enforcement) {
	dom := &corral.Domain{Required: e.Setting.Value == EnforceRequire}
	programs := []string{d.Run.Args[0]}
	var anyProgram, anyFile string
	for _, c := range j.calls {
		for _, seg := range c.segments {
			if seg.By == byBuiltin {
				continue
			}
			l := j.leeway(seg)
			seg.Leeway = &l
			programs = append(programs, seg.RealPath)
			programs = append(programs, l.Programs...)
			if l.Runs == RunsAny && anyProgram == "" {
				anyProgram = brief(seg.Argv[0]) + " may run any program: " + l.Why
			}
			if slices.Equal(l.Writes, []string{RunsAny}) {
				anyFile = brief(seg.Argv[0])
			} else {
				dom.Writable = append(dom.Writable, l.Writes...)
			}
			if dom.Hint == "" && seg.Rule != nil && seg.Rule.Pattern != "" {
				dom.Hint = hint(seg.Rule)
			}
		}
	}
	dom.AnyProgram, dom.AnyFile = anyProgram != "", anyFile != ""
	if dom.AnyFile {
		dom.Writable = nil
	} else {
		dom.Writable = append(dom.Writable, temporary...)
		if j.req.Workspace != "" {
			dom.Writable = append(dom.Writable, j.req.Workspace)
		}
		slices.Sort(dom.Writable)
		dom.Writable = slices.Compact(dom.Writable)
	}
	if !dom.AnyProgram {
		j.resolve(dom, programs)
	}
	if !dom.Limits() {
		e.Reason = anyProgram
		return
	}
	e.Domain = dom
	e.Warnings = j.losses()
	dom.Lost = e.Warnings
}

// losses are warnings about programs that lose the privileges of their files in a
// domain: the programs of segments, and those that segments may run.
func (j *judge) losses() []string {
	var files []string
	for _, c := range j.calls {
		for _, seg := range c.segments {
			if seg.RealPath == "" {
				continue
			}
			if files = append(files, seg.RealPath); seg.Leeway != nil {
				files = append(files, seg.Leeway.Programs...)
			}
		}
	}
	slices.Sort(files)
	var list []string
	for _, file := range slices.Compact(files) {
		if !strings.HasSuffix(file, "/") && j.privileged(file) {
			list = append(list, file+" does not get the privileges that its file has (setuid, setgid or capabilities): what is enforced takes them away. "+
				`With runs: "any" and writes: "any" in the rule nothing is enforced for it.`)
		}
	}
	return list[:min(len(list), maxLosses)]
}

const maxLosses = 8

// leeway says what a segment may run and write, by its rules or by the table.
func (j *judge) leeway(seg *Segment) Leeway {
	l := j.usual(seg)
	runs, writes := unionOf(seg.allowers, func(r *Rule) []string { return r.Runs }), unionOf(seg.allowers, func(r *Rule) []string { return r.Writes })
	if runs != nil {
		l = Leeway{Runs: runsSome, Writes: l.Writes, Why: "the rule says so"}
		switch {
		case slices.Contains(runs, RunsAny):
			l.Runs = RunsAny
		case len(runs) == 0:
			l.Runs = runsNone
		default:
			for _, p := range runs {
				l.Programs = append(l.Programs, j.home(p))
			}
		}
		if l.Runs != RunsAny && slices.Contains(l.Writes, RunsAny) { // limited programs do not write everywhere
			l.Writes = nil
		}
	}
	if writes != nil {
		l.Writes = nil
		for _, p := range writes {
			l.Writes = append(l.Writes, j.home(p))
		}
		if slices.Contains(writes, RunsAny) {
			l.Writes = []string{RunsAny}
		}
	}
	return l
}

// hint is the text of the rule with %s for the programs that it may run; empty if the
// text is too long to show, or has another %s.
func hint(r *Rule) string {
	text := r.text(", runs: [%s]")
	if len(text) > maxHint || strings.Count(text, "%s") > 1 {
		return ""
	}
	return text
}

const maxHint = 1000

// unionOf joins the lists of all rules that allow a segment. A rule without a list takes
// nothing away. Nil: no rule has a list.
func unionOf(rules []*Rule, of func(*Rule) []string) []string {
	var all []string
	for _, r := range rules {
		if list := of(r); list != nil {
			if all == nil {
				all = []string{}
			}
			all = append(all, list...)
		}
	}
	return all
}

// home is a path of a rule, with the home directory in place of ~/.
func (j *judge) home(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok && j.req.Home != "" {
		return path.Join(j.req.Home, rest) + p[len(strings.TrimRight(p, "/")):]
	}
	return p
}

// usual is the leeway of a segment when no rule gives one.
func (j *judge) usual(seg *Segment) Leeway {
	unlimited := func(why string) Leeway { return Leeway{Runs: RunsAny, Writes: []string{RunsAny}, Why: why} }
	name := seg.name()
	switch {
	case seg.Inline != "":
		return unlimited("what it runs is in its arguments, which a rule names")
	case seg.wrapper && programs.IsShell(name):
		return Leeway{Runs: runsNone, Why: "what the text runs is decided on by itself"}
	case seg.Script != "":
		return unlimited("what the script runs is not known")
	case seg.Unbound != "":
		return unlimited("what code it runs is not known")
	}
	known, ok := leaves()[name]
	if real := programs.NormalizeName(seg.RealPath); !ok || leaves()[real] != nil {
		known, ok = leaves()[real], leaves()[real] != nil
		if !ok && leaves()[name] != nil && !programs.IsInterpreter(real) && !programs.IsShell(real) {
			known, ok = leaves()[name], true // a link, such as those to /etc/alternatives
		}
	}
	switch {
	case !ok:
		return unlimited("what it runs is not known")
	case !slices.Contains(systemDirs, path.Dir(seg.RealPath)) && !slices.Contains(j.rules.SafeBinDirs, path.Dir(seg.RealPath)):
		return unlimited("it is not in a directory of the system, and may be another program of that name")
	}
	if sub := known.runner(seg.Words); sub != "" {
		return unlimited(sub)
	}
	l := Leeway{Runs: runsNone, Why: "it runs no other program"}
	for _, helper := range known.helpers {
		if found := j.helper(helper); found != "" {
			l.Programs = append(l.Programs, found)
		}
	}
	if len(l.Programs) > 0 {
		l.Runs, l.Why = runsSome, "it runs no other program than its own helpers"
	}
	for _, w := range known.writes {
		l.Writes = append(l.Writes, j.home(w))
	}
	return l
}

// systemDirs are the directories where a program's name says what it is.
var systemDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"}

// helper is the path of a helper: a directory, with a slash at the end, or a program
// in a directory of the system. Empty: there is none.
func (j *judge) helper(name string) string {
	if strings.HasPrefix(name, "/") {
		if _, err := j.view.Stat(name); err != nil {
			return ""
		}
		return name
	}
	for _, dir := range systemDirs {
		if _, err := j.view.Stat(dir + "/" + name); err == nil {
			return dir + "/" + name
		}
	}
	return ""
}

// privileged reports whether executing a file gives privileges to the process.
func (j *judge) privileged(file string) bool {
	if v, ok := j.view.(interface{ Privileged(path string) bool }); ok {
		return v.Privileged(file)
	}
	return false
}
