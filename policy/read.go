package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/programs"
)

// A reading is a parsed command: all its simple commands and findings.
type reading struct {
	finder
	scripts []*script // the text, in every dialect; the first is the one that is pinned
	calls   []*call   // of all scripts and of the shells in them, in order
	found   []Finding
}

// maxCalls bounds the commands in a command.
const maxCalls = 1000

func read(req Request, view View) *reading {
	r := &reading{finder: finder{req: req, view: view, known: map[sought]located{}, dirs: map[string]string{}}}
	if len(req.Args) > 0 {
		c := &call{text: QuotePattern(req.Args...)}
		for i, a := range req.Args {
			w := programs.Literal(a)
			w.At = i + 1
			c.words = append(c.words, w)
		}
		r.calls = []*call{c}
		r.expand(c, c.words, nil, 0)
	} else {
		shell := "sh"
		if len(req.Shell) > 0 {
			shell = filepath.Base(req.Shell[0])
		}
		r.scripts = r.text(req.Command, shell, 0, false)
	}
	r.followDirectories()
	return r
}

// text parses the text of a shell, in every dialect that it may be in. A further
// dialect counts only if it finds something else than the first. With moved, the
// directory in which the text runs is not known.
func (r *reading) text(text, shell string, depth int, moved bool) []*script {
	var scripts []*script
	if !parsed(shell) { // go on: a parser for sh may still find some of its programs
		r.found = append(r.found, Finding{Kind: Syntax, Offset: -1, Reason: "is in the language of " + shell + ", which is not parsed", unknown: true})
	}
	for i, lang := range dialects(shell, text) {
		s := parse(text, lang, depth)
		if i > 0 && s.shape() == scripts[0].shape() {
			continue
		}
		if i > 0 {
			s.find(Finding{Kind: Syntax, Reason: "is read by " + shell + " and by bash in two ways", unknown: true})
		}
		scripts = append(scripts, s)
		r.found = append(r.found, s.findings...)
		for _, c := range s.calls {
			if len(r.calls) == maxCalls {
				r.found = append(r.found, Finding{Kind: Syntax, Offset: -1, Reason: fmt.Sprintf("has more than %d commands", maxCalls), unknown: true})
				return scripts
			}
			c.moved = c.moved || moved
			r.calls = append(r.calls, c)
			r.expand(c, c.words, nil, 0)
		}
	}
	return scripts
}

// parsed reports whether a shell's language is close enough to that of sh.
func parsed(shell string) bool {
	switch programs.NormalizeName(shell) {
	case "cmd", "powershell", "pwsh", "fish", "elvish", "nu", "xonsh", "csh", "tcsh":
		return false
	}
	return true
}

// shape is equal for two readings of a text that mean the same.
func (s *script) shape() string {
	var b strings.Builder
	for _, c := range s.calls {
		fmt.Fprintf(&b, "%d", c.offset)
		for _, w := range c.words {
			fmt.Fprintf(&b, " %q %t", w.Text, w.Static)
		}
	}
	for _, f := range s.findings {
		fmt.Fprintf(&b, "\n%s %d %s", f.Kind, f.Offset, f.Reason)
	}
	return b.String()
}

// expand finds the programs of a call: the one that it names, and those that a wrapper
// in it runs.
func (r *reading) expand(c *call, argv []Word, wrappers []string, layers int) {
	w, got := r.program(argv[0], c.moved)
	if w != argv[0] {
		argv = append([]Word{w}, argv[1:]...)
	}
	seg := &Segment{
		Text: c.text, Offset: c.offset, Depth: c.depth, Words: argv, Argv: make([]string, 0, len(argv)), Wrappers: slices.Clone(wrappers),
		Path: got.path, RealPath: got.real, missing: got.why, call: c,
	}
	if c.depth > 0 {
		seg.Offset = -1
	}
	seg.Builtin = got.path == "" && c.expr != nil && w.Static && programs.HasField(shellBuiltins, w.Text)
	for _, a := range argv {
		seg.Argv = append(seg.Argv, a.Text)
	}
	c.segments = append(c.segments, seg)
	if !w.Static {
		c.unknown = got.why
		return
	}
	if why := renames(argv); why != "" {
		c.unknown = why
	} else if why := setsNamed(argv); why != "" && c.expr != nil {
		c.unknown = why
	}
	l := programs.Peel(argv)
	if l.Kind == programs.LayerNone {
		l = seg.peelNamed(l)
	}
	for _, name := range l.Vars {
		if steers(name) {
			c.unknown = l.Name + " sets " + name + ", which can change what runs"
		}
	}
	if l.Kind == programs.LayerNone {
		r.operand(c, seg)
		return
	}
	seg.wrapper, seg.own = true, l.Own
	c.moved = c.moved || l.Moves
	seg.sets, seg.setsOnly = l.Sets, l.SetsOnly
	wrappers = append(wrappers, l.Name)
	if layers == programs.MaxLayers {
		c.unknown = fmt.Sprintf("it is wrapped more than %d times", programs.MaxLayers)
		return
	}
	switch l.Kind {
	case programs.LayerRefused:
		seg.Refused = l.Reason
		if l.Text.Text != "" {
			r.inside(c, seg, l)
		} else if len(l.Inner) == 0 {
			c.unknown = l.Reason
		}
	case programs.LayerText:
		r.inside(c, seg, l)
	}
	for _, inner := range append([][]Word{l.Inner}, l.More...) {
		if len(inner) > 0 {
			r.expand(c, inner, wrappers, layers+1)
		}
	}
}

// maxDepth is how many shells' texts may be in each other.
const maxDepth = 4

// inside reads the text that a call hands to a shell.
func (r *reading) inside(c *call, seg *Segment, l programs.Layer) {
	switch {
	case !l.Text.Static:
		c.unknown = "the text for " + l.Name + " is made when it runs"
	case c.depth == maxDepth:
		c.unknown = fmt.Sprintf("it has shells in shells, more than %d", maxDepth)
	default:
		shell := l.Shell
		if l.Text.At == 0 {
			seg.Refused = "what " + l.Name + " reads is made of several words"
		}
		c.inner = append(c.inner, textOf{at: l.Text.At, scripts: r.text(l.Text.Text, shell, c.depth+1, c.moved)})
	}
}

// operand finds the file of code that a program is to run.
func (r *reading) operand(c *call, seg *Segment) {
	name := seg.name()
	i, why := programs.ScriptOperand(seg.Words)
	for _, words := range seg.asNamed()[1:] {
		if i < 0 && why == "" { // by this name it is no interpreter
			name = words[0].Text
			i, why = programs.ScriptOperand(words)
		}
	}
	defer func() {
		// make finds its file itself, as other programs find their settings.
		given := strings.HasSuffix(seg.scriptWhy, programs.CodeGiven) && staticTexts(seg.Words) != nil
		if (programs.IsShell(name) || programs.IsInterpreter(name)) && !strings.HasSuffix(name, "make") && !given {
			seg.Unbound = seg.scriptWhy
		}
	}()
	if i < 0 {
		seg.scriptWhy = why
		if programs.IsShell(seg.name()) && strings.HasSuffix(why, programs.FromInput) { // bash /dev/stdin
			c.unknown = why
		}
		return
	}
	w := seg.Words[i]
	if !w.Static || c.moved && !filepath.IsAbs(w.Text) {
		seg.scriptWhy = "which file " + seg.Words[0].Text + " runs can only be told by running it"
		return
	}
	seg.operand = i
	seg.Script = r.absolute(w.Text)
	sum, err := r.digest(seg.Script)
	if err != nil {
		seg.scriptWhy = "the script " + seg.Script + " cannot be read: " + err.Error()
	}
	seg.SHA256 = sum
}

// renames says how the words change the shell so that the commands after them may mean
// something else, or how they run code themselves; empty if they do neither.
func renames(words []Word) string {
	switch name := words[0].Text; name {
	case "alias", "enable", "hash", "bind", "complete", "compgen", "fc", "mapfile", "readarray":
		if len(words) > 1 {
			return name + " can make another program of a name, or run one"
		}
	case "printf", "read", "test", "[", "unset", "wait", "getopts", "let", "export", "readonly", "declare", "local", "typeset":
		for _, w := range words[1:] {
			if strings.Contains(w.Text, "[") && (strings.Contains(w.Text, "$(") || strings.Contains(w.Text, "`")) {
				return name + " runs what is in the subscript of a variable"
			}
		}
	case "jobs":
		if len(words) > 1 && (!words[1].Static || strings.HasPrefix(words[1].Text, "-") && strings.Contains(words[1].Text, "x")) {
			return "jobs -x runs a command"
		}
	case ".", "source":
		if len(words) > 1 && (!words[1].Static || strings.HasPrefix(words[1].Text, "/dev/") || strings.HasPrefix(words[1].Text, "/proc/")) {
			return name + " runs commands that are in no file"
		}
	case "set", "shopt":
		if len(words) > 1 && !(name == "set" && onlyStops(words[1:])) {
			return name + " changes how the shell reads what follows"
		}
	}
	return ""
}

// onlyStops reports whether the arguments of set change only when the script ends and
// what it prints about itself, as set -euo pipefail does.
func onlyStops(args []Word) bool {
	option := false
	for _, w := range args {
		switch {
		case !w.Static:
			return false
		case option:
			option = false
			if !slices.Contains([]string{"errexit", "nounset", "pipefail", "xtrace"}, w.Text) {
				return false
			}
		default:
			if len(w.Text) < 2 || w.Text[0] != '-' && w.Text[0] != '+' || strings.Trim(w.Text[1:], "euxo") != "" || strings.Count(w.Text, "o") > 1 {
				return false
			}
			option = strings.Contains(w.Text, "o")
		}
	}
	return !option
}

// printers are kept since they have large buffers.
var printers = sync.Pool{New: func() any { return syntax.NewPrinter(syntax.Minify(false)) }}

// print is the text of a script, after pin has replaced words in it.
func (s *script) print() (string, error) {
	var b strings.Builder
	p := printers.Get().(*syntax.Printer)
	defer printers.Put(p)
	err := p.Print(&b, s.file)
	return strings.TrimSuffix(b.String(), "\n"), err
}
