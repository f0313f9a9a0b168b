package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/corral-exec/corral/internal/programs"
)

// Decide says whether the rules allow a command, and why. It changes nothing and
// asks for no approval. It sees the file system as the view shows it at that
// moment.
func Decide(req Request, rules Rules, view View) Decision {
	j := &judge{reading: read(req, view), rules: rules}
	j.sort()
	d := Decision{Security: rules.Security, Ask: rules.Ask, AskFallback: rules.AskFallback, Findings: j.found}
	if !rules.Security.Value.Valid() { // not set
		d.Security.Value = SecurityDeny
	}
	if !rules.Ask.Value.Valid() {
		d.Ask.Value = AskAlways
	}
	j.judge(&d)
	d.Reason = oneLine(d.Reason)
	d.Segments = make([]Segment, 0, len(j.calls))
	for _, c := range j.calls {
		for _, seg := range c.segments {
			d.Segments = append(d.Segments, *seg)
		}
	}
	return d
}

// A judge compares what a command does with the rules.
type judge struct {
	*reading
	rules   Rules
	exactly []*Rule // that name exactly this command
	other   []*Rule // that deny or ask

	whole         bool // a rule allows exactly this command
	denied, asked *Rule
	why           string // why allowlist mode refuses it: the first reason found
	fix           []string
}

// sort takes out the rules that are few, so that what is about them looks only at those.
func (j *judge) sort() {
	text := j.req.text()
	for i := range j.rules.List {
		r := &j.rules.List[i]
		if r.IsCommand(text) {
			j.exactly = append(j.exactly, r)
		}
		if r.Action != Allow {
			j.other = append(j.other, r)
		}
	}
}

func (j *judge) judge(d *Decision) {
	j.forbid()
	miss := !j.remembered(d)
	if miss {
		miss = !j.allowed()
	}
	if all := j.variables(d); !all && !miss {
		miss = true
		i := slices.IndexFunc(d.Variables, func(v Variable) bool { return v.By == "" })
		v := d.Variables[i]
		j.why = fmt.Sprintf("the call sets the variable %s (sha256 %s…): %s", v.Name, v.SHA256[:12], v.Reason)
	}
	for _, v := range d.Variables {
		if v.By == "" {
			j.fix = append(j.fix, wantVariables(v.Name))
		}
	}
	if !miss && d.Run == nil {
		switch run, why := j.pin(); {
		case run != nil:
			d.Run = run
		case d.Security.Value == SecurityAllowlist && !j.whole:
			miss, j.why = true, "what is allowed cannot be written down so that nothing else can run: "+why
		}
	}
	unknown := j.unknown()
	security, ask := d.Security, d.Ask
	d.Miss = miss
	d.Fallback = j.fallback(*d, unknown)
	switch {
	case security.Value == SecurityDeny:
		d.Outcome, d.Reason = Denied, "security=deny ("+security.Source.String()+")"
		d.Fix = []string{cmp.Or(security.Source.Fix, "set security to allowlist where it says deny: "+security.Source.String())}
	case j.denied != nil:
		d.Outcome, d.Rule = Denied, j.denied
		d.Reason = j.denied.says()
		if j.denied != &ownRule {
			d.Fix = []string{"change or remove the rule in " + j.denied.Source.String()}
		}
	case j.asked != nil:
		d.Rule = j.asked
		d.Reason = j.asked.says()
		d.Fix = []string{"change or remove the rule in " + j.asked.Source.String()}
		d.Outcome = d.query(ask)
	case unknown != "":
		d.Reason = "deny rules cannot be checked: " + unknown
		d.Fix = []string{"write the command so that the programs that it runs can be told from its text"}
		d.Outcome = d.query(ask)
	case security.Value == SecurityAllowlist && miss:
		d.Reason, d.Fix = j.why, j.fix
		d.Outcome = d.query(ask)
	case ask.Value == AskAlways:
		d.Reason = "ask=always (" + ask.Source.String() + ")"
		d.Outcome = Asked
	case security.Value == SecurityFull:
		d.Outcome, d.Reason = Allowed, "security=full ("+security.Source.String()+")"
	default:
		d.Outcome, d.Reason = Allowed, "every program of it is allowed"
	}
	// Pin the programs of a command that may be approved too, if rewriting the
	// command with paths changes nothing else in it.
	if d.Outcome == Asked && d.Run == nil && j.plain() {
		d.Run, _ = j.pin()
	}
	if d.Outcome != Denied {
		d.Enforce = j.enforce(d)
	}
}

// plain reports whether the command only runs programs that are written in it. Whether
// their paths are known is for pin to check.
func (j *judge) plain() bool {
	for _, c := range j.calls {
		for _, seg := range c.segments {
			if seg.Refused != "" {
				return false
			}
		}
	}
	return len(j.calls) > 0 && len(j.found) == 0
}

// query is the outcome for a command that needs an approval.
func (d *Decision) query(ask Setting[Ask]) Outcome {
	if ask.Value == AskOff {
		d.Reason += "; and nobody is asked, by ask=off (" + ask.Source.String() + ")"
		return Denied
	}
	return Asked
}

// fallback is the outcome for a command that needs an approval and does not get it.
func (j *judge) fallback(d Decision, unknown string) Outcome {
	if j.denied != nil || j.asked != nil || unknown != "" || d.AskFallback.Value == "" {
		return Denied
	}
	switch Stricter(Securities, d.Security.Value, d.AskFallback.Value) {
	case SecurityFull:
		return Allowed
	case SecurityAllowlist:
		if !d.Miss {
			return Allowed
		}
	}
	return Denied
}

// says describes the rule, as the reason of a decision.
func (r *Rule) says() string {
	what := r.Pattern
	if r.Command != "" {
		what = "that very command"
	}
	text := fmt.Sprintf("%s rule %q (%s)", r.Action, what, r.Source)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// forbid finds the deny and ask rules that are about the command.
func (j *judge) forbid() {
	for _, r := range j.exactly {
		if r.Action != Allow {
			j.forbidBy(r, nil)
		}
	}
	for _, c := range j.calls {
		for _, seg := range c.segments {
			seg.Inline = inline(seg)
			if why := own(seg); why != "" {
				j.forbidBy(&ownRule, seg)
				seg.Refused = why
			}
			t := j.target(seg, seg.elsewhere...)
			for _, r := range j.other {
				switch r.forbids(t) {
				case alike:
					j.forbidBy(r, seg)
				case perhaps:
					if c.unknown == "" {
						c.unknown = fmt.Sprintf("whether the %s rule %q is about it can only be told by running it", r.Action, r.Pattern)
					}
				}
			}
		}
	}
	j.mentions()
}

// inline says how a segment's arguments make it run more than its program; empty if
// they do not.
func inline(seg *Segment) string {
	for i, words := range seg.asNamed() {
		if name := words[0].Text; i > 0 && programs.IsShell(name) && !programs.IsShell(seg.name()) && !seg.wrapper {
			return "it is " + name + " by another name, which runs what it reads"
		}
		if label, hit := programs.InlineCode(words); hit && !seg.wrapper && !programs.HarmlessText(words) { // what a wrapper runs is decided on
			return label + " runs the code that it is given"
		}
		if reason, hit := programs.Carrier(words); hit {
			return reason
		}
	}
	return ""
}

func (j *judge) forbidBy(r *Rule, seg *Segment) {
	if seg != nil && (seg.Rule == nil || r.Action == Deny && seg.Rule.Action != Deny) {
		seg.Rule, seg.Reason = r, r.says()
	}
	if r.Action == Deny && j.denied == nil {
		j.denied = r
	}
	if r.Action == Query && j.asked == nil {
		j.asked = r
	}
}

// unknown says why the deny and ask rules cannot be checked against the command;
// empty if they can, or there are none.
func (j *judge) unknown() string {
	if len(j.other) == 0 {
		return ""
	}
	for _, f := range j.found {
		if f.unknown {
			return f.says()
		}
	}
	for _, c := range j.calls {
		if c.unknown != "" {
			return fmt.Sprintf("%s: %s", short(c.text), c.unknown)
		}
	}
	return ""
}

// says describes the finding, as the reason of a decision.
func (f Finding) says() string {
	if f.Text == "" {
		return "the command " + f.Reason
	}
	return short(f.Text) + " " + f.Reason
}

// short is text in quotes, cut where it is long.
func short(text string) string { return fmt.Sprintf("%q", brief(text)) }

// brief is text, cut where it is long.
func brief(text string) string {
	const most = 80
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}

// oneLine is text without line ends and other control characters, which names of
// files can have.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// remembered reports whether a rule allows exactly this command.
func (j *judge) remembered(d *Decision) bool {
	for _, r := range j.exactly {
		if r.Action == Allow {
			for _, c := range j.calls {
				for _, seg := range c.segments {
					seg.By, seg.Rule = byRule, r
				}
			}
			j.whole = true
			return true
		}
	}
	return false
}

// text is the command as one line, as rules have it.
func (req Request) text() string {
	if len(req.Args) > 0 {
		return QuotePattern(req.Args...)
	}
	return req.Command
}

// allowed reports whether everything is allowed, and notes on segments and
// findings what allows it or why nothing does.
func (j *judge) allowed() bool {
	ok := true
	refuse := func(why string, fix ...string) {
		if ok {
			j.why = why
		}
		ok = false
		for _, f := range fix {
			if f != "" && !slices.Contains(j.fix, f) {
				j.fix = append(j.fix, f)
			}
		}
	}
	for _, c := range j.calls { // first: a variable may be allowed by the rule of a program
		for _, seg := range c.segments {
			seg.pass = j.allowedSegment(seg)
		}
	}
	for i := range j.found {
		f := &j.found[i]
		if f.sets != nil {
			why := ""
			for k := range f.sets {
				why = cmp.Or(why, j.settable(&f.sets[k]))
			}
			if f.Passes = why == ""; !f.Passes {
				refuse(f.says()+": "+why, wantVariables(f.names()...))
			}
			continue
		}
		switch f.option {
		case optionChaining:
			if f.Passes = j.rules.Chaining.Value; !f.Passes {
				refuse(f.says()+", which is refused in allowlist mode", "run the commands one by one, or set "+optionChaining)
			}
		case optionRedirections:
			if f.Passes = j.rules.Redirections.Value; !f.Passes {
				refuse(f.says()+", which is refused in allowlist mode", "leave it out, or set "+optionRedirections)
			}
		default:
			refuse(f.says() + ", which is refused in allowlist mode")
		}
	}
	for _, c := range j.calls {
		for _, seg := range c.segments {
			if !seg.pass {
				why, fix := j.wanting(seg)
				if seg.Reason == "" {
					seg.Reason = oneLine(why)
				}
				refuse(short(seg.Text)+": "+why, fix)
			}
		}
		if c.unknown != "" {
			refuse(short(c.text) + ": " + c.unknown)
		}
	}
	if len(j.calls) == 0 && ok {
		refuse("the command runs no program that a rule could be about")
	}
	return ok
}

// wanting says why nothing allows a segment, and which rule would.
func (j *judge) wanting(seg *Segment) (why, fix string) {
	switch {
	case seg.Refused != "":
		return seg.Refused, ""
	case seg.Builtin:
		return seg.Argv[0] + " is a builtin of the shell, which no rule can name", ""
	case seg.missing != "":
		return brief(seg.Argv[0]) + ": " + seg.missing, ""
	case seg.Inline != "":
		if r := narrowest(seg.Path, seg.Words[1:]); r.Args != nil && seg.Unbound == "" {
			return seg.Inline, fixRule(r)
		}
		return seg.Inline, "allow exactly this command: approve it with allow-always"
	case programs.IsShell(seg.name()) && !seg.wrapper:
		switch {
		case seg.Script != "" && !j.system(seg):
			return "the shell " + seg.Path + ", which would read the script " + seg.Script + ", is in no trusted directory", "use a shell in /bin or /usr/bin"
		case seg.Script != "":
			return "no rule allows the script " + seg.Script, fixRule(narrowest(seg.Script, seg.Words[seg.operand+1:]))
		}
		return "a shell runs whatever it reads", ""
	}
	if j.req.TTY {
		return seg.Path + " may start others on a terminal, such as a pager or an editor: a rule has to name its arguments", "run it without a terminal"
	}
	why = "no rule allows " + seg.Path
	if seg.safeBin != "" {
		why += ", and as a safe bin it " + seg.safeBin
	}
	return why, fixRule(narrowest(seg.Path, seg.Words[1:]))
}

// setsAllowed reports whether the program that env runs may have all the variables
// that env sets.
func (j *judge) setsAllowed(seg *Segment) bool {
	for i := range seg.sets {
		s := &seg.sets[i]
		if !s.Value.Static {
			return false
		}
		if programs.PlainVariable(s.Name, s.Value.Text) == "" || envAllows(j.rules.Env.Value, s.Name, s.Value.Text) {
			continue
		}
		for _, inner := range seg.call.segments {
			if inner != seg && !j.ruleSets(inner, s.Name, s.Value.Text) {
				return false
			}
		}
	}
	return len(seg.sets) > 0
}

// names are the names of the variables that an assignment sets.
func (f *Finding) names() []string {
	var names []string
	for _, s := range f.sets {
		names = append(names, s.Name)
	}
	return names
}

func (seg *Segment) name() string { return programs.NormalizeName(seg.Words[0].Text) }

func (j *judge) target(seg *Segment, more ...string) target {
	t := target{argv: seg.Words, home: j.req.Home}
	if seg.Words[0].Static {
		t.name = seg.Words[0].Text
	}
	for _, p := range append([]string{seg.Path, seg.RealPath}, more...) {
		if p != "" && !slices.Contains(t.paths, p) {
			t.paths = append(t.paths, p)
		}
	}
	for _, n := range append([]string{t.name}, t.paths...) {
		for _, name := range []string{path.Base(n), programs.NormalizeName(n)} {
			if n != "" && !slices.Contains(t.names, name) {
				t.names = append(t.names, name)
			}
		}
	}
	return t
}

// allowedSegment finds what allows a segment.
func (j *judge) allowedSegment(seg *Segment) bool {
	if seg.Refused != "" && !(seg.setsOnly && j.setsAllowed(seg)) {
		return false
	}
	if j.builtin(seg) {
		seg.By = byBuiltin
		return true
	}
	if seg.wrapper && !seg.own && j.system(seg) {
		seg.By = byWrapper
		return true
	}
	t := j.target(seg)
	shell := programs.IsShell(seg.name()) && !seg.wrapper
	for i := range j.rules.List {
		r := &j.rules.List[i]
		if r.Action == Allow && j.allows(r, t, seg, shell) {
			seg.By = byRule
			if seg.Rule == nil {
				seg.Rule = r
			}
			if j.rules.Enforce.Value == "" || j.rules.Enforce.Value == EnforceOff {
				return true
			}
			seg.allowers = append(seg.allowers, r)
		}
	}
	if seg.By == byRule {
		return true
	}
	if j.safe(seg) {
		seg.By = bySafeBin
		return true
	}
	return false
}

// allows reports whether an allow rule matches the segment and its arguments. If the
// segment is a shell of the system that runs a script, the rule may allow the script.
func (j *judge) allows(r *Rule, t target, seg *Segment, shell bool) bool {
	if shell && seg.operand == 1 && seg.Script != "" && seg.scriptWhy == "" && j.system(seg) {
		// The rule may be about the script.
		script := target{paths: []string{seg.Script}, argv: append([]Word{programs.Literal(seg.Script)}, seg.Words[seg.operand+1:]...), home: t.home}
		if r.allows(script, seg.SHA256) {
			return true
		}
	}
	if shell && !r.narrow() {
		return false // the rule allows the shell, not every script that it may read
	}
	if seg.Inline != "" && !r.narrow() && !r.any() {
		return false
	}
	if j.req.TTY && !r.narrow() && !r.any() {
		return false
	}
	if r.any() && seg.Path == "" {
		return false // the program that would run cannot be pinned
	}
	return r.allows(t, seg.SHA256)
}

// shellBuiltins are the commands that shells carry out themselves, without a file.
const shellBuiltins = `. : [ alias bg bind break builtin caller case cd command compgen complete compopt continue declare dirs disown enable eval exec
	exit export false fc fg getopts hash help history jobs let local logout mapfile popd printf pushd read readarray readonly return set
	shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait`

// builtin reports whether the segment is a harmless builtin of the shell, and lists
// of commands are allowed.
func (j *judge) builtin(seg *Segment) bool {
	if !j.rules.Chaining.Value || seg.call.expr == nil || len(seg.Wrappers) > 0 || !seg.Words[0].Static {
		return false
	}
	switch seg.Words[0].Text {
	case "cd", ":", "true", "false":
		return true
	}
	return false
}

// trusted reports whether a file is in a directory for the system's own programs.
func (j *judge) trusted(file string) bool {
	dir := path.Dir(file)
	return file != "" && (dir == "/bin" || dir == "/usr/bin" || slices.Contains(j.rules.SafeBinDirs, dir))
}

// system reports whether the program of a segment is in such a directory, and only the
// owner of the directory can put programs there.
func (j *judge) system(seg *Segment) bool {
	return j.trusted(seg.Path) && !j.writable(path.Dir(seg.Path))
}

// writable reports whether accounts other than the owner can put programs into a
// directory that the rules trust.
func (j *judge) writable(dir string) bool {
	if dir == "/bin" || dir == "/usr/bin" {
		return false
	}
	info, err := j.view.Stat(dir)
	return err != nil || info.Mode().Perm()&0o022 != 0
}

// safe reports whether the segment is a safe use of a safe bin.
func (j *judge) safe(seg *Segment) bool {
	name := path.Base(seg.Path)
	if seg.Inline != "" || seg.wrapper || !slices.Contains(programs.SafeBinNames(j.rules.SafeBins.Value), name) || programs.IsInterpreter(name) || programs.IsShell(name) {
		return false
	}
	profile, ok := j.rules.SafeBinProfiles[name]
	if !ok {
		profile, ok = programs.SafeBinProfiles[name]
	}
	switch {
	case !ok:
		seg.safeBin = "has no profile of what is safe"
		return false
	case !j.trusted(seg.Path):
		seg.safeBin = "is not in a trusted directory"
		return false
	case j.writable(path.Dir(seg.Path)):
		seg.safeBin = "is in a directory that can be written to by others: " + path.Dir(seg.Path)
		return false
	}
	if err := profile.Check(seg.Words); err != nil {
		seg.safeBin = err.Error()
		return false
	}
	return true
}
