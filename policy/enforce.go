package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/programs"
)

// Enforce says whether the kernel is to keep commands to what was decided. The set
// is closed.
type Enforce string

const (
	EnforceRequire Enforce = "require" // what cannot be enforced does not run
	EnforceTry     Enforce = "try"     // it runs, and the result says so
	EnforceOff     Enforce = "off"
)

// Enforces are the values, the strictest first.
var Enforces = []Enforce{EnforceRequire, EnforceTry, EnforceOff}

// Valid reports whether e is one of the values.
func (e Enforce) Valid() bool { return slices.Contains(Enforces, e) }

// RunsAny as the only entry of Rule.Runs or Rule.Writes: whatever there is.
const RunsAny = "any"

// An Enforcement is what the kernel is to enforce of a decision.
type Enforcement struct {
	Setting Setting[Enforce] `json:"setting"`
	// Domain is what the command may execute and write; nil: nothing is
	// enforced, and Reason says why.
	Domain *corral.Domain `json:"domain,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Warnings are what the command loses by it, in complete sentences.
	Warnings []string `json:"warnings,omitempty"`
}

// A Leeway says which further programs a segment may run, and where it may write.
type Leeway struct {
	// Runs is "none", "any", or "some"; then Programs has the paths.
	Runs     string   `json:"runs"`
	Programs []string `json:"programs,omitempty"`
	// Writes are where it may write beside the workspace and the directories for
	// temporary files; RunsAny: anywhere.
	Writes []string `json:"writes,omitempty"`
	// Why says where this is from, for people.
	Why string `json:"why"`
}

// The values of Leeway.Runs.
const (
	runsNone = "none"
	runsSome = "some"
)

// temporary are the directories for temporary files.
var temporary = []string{"/tmp", "/var/tmp"}

// enforce says what the kernel is to enforce of a command that the rules allow;
// nil where nothing is configured.
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

// domain puts together what all segments may do: one shell runs them, so that what
// one may, all may.
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

// losses are what programs of the command lose by a domain: those that segments
// are, and those that a rule has them run.
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

// leeway is what a segment may run and write, by its rule or by the table.
func (j *judge) leeway(seg *Segment) Leeway {
	l := j.usual(seg)
	runs, writes := said(seg.allowers, func(r *Rule) []string { return r.Runs }), said(seg.allowers, func(r *Rule) []string { return r.Writes })
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
		if l.Runs != RunsAny && slices.Contains(l.Writes, RunsAny) { // a limit to what had none
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

// hint is the rule with a place for what its program may run; empty if that would
// be too long to show, or not be the only such place.
func hint(r *Rule) string {
	text := r.text(", runs: [%s]")
	if len(text) > maxHint || strings.Count(text, "%s") > 1 {
		return ""
	}
	return text
}

const maxHint = 1000

// said is what rules that allow the same say together, whatever their order: one
// that says nothing takes nothing away. Nil: none says anything.
func said(rules []*Rule, of func(*Rule) []string) []string {
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

// home is a path of a rule, which may begin with ~/.
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
			known, ok = leaves()[name], true // a link, as of /etc/alternatives
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

// systemDirs are where programs are what their names say.
var systemDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"}

// helper is where a helper is: a directory, with a slash at the end, or a program
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

// privileged reports whether a file has privileges that its user has not.
func (j *judge) privileged(file string) bool {
	if v, ok := j.view.(interface{ Privileged(path string) bool }); ok {
		return v.Privileged(file)
	}
	return false
}
