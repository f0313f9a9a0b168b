package policy

import (
	"regexp"
	"slices"
	"strings"
)

// A layer is what one wrapper does. Layers are peeled until none is left.
type layer struct {
	kind layerKind
	name string // the wrapper's, for people

	// inner is the program that runs, and its arguments. A layer that is
	// refused has it too where it can be told, for the rules that deny.
	inner []Word
	// more are further commands that run (several -exec). Of a layer that is
	// refused, they are what may be the command, for the rules that deny.
	more [][]Word

	text  Word   // shell text; not Static: cannot be told
	shell string // that reads text, by its base name; empty: the one that reads this command
	args  []Word // its $0, $1 …

	sets     []setting // variables that it sets for what it runs
	setsOnly bool      // it is refused for these alone

	// clean: to replace the whole by inner changes nothing but priority,
	// timing, buffering and the like.
	clean bool
	// own: the wrapper itself has to be allowed too, not only what it runs.
	own bool
	// vars are the names of variables that it sets.
	vars   []string
	reason string // of a layer that is refused: why it cannot be looked through
}

type layerKind int

const (
	layerNone    layerKind = iota // no wrapper, or one that runs nothing
	layerArgv                     // runs inner
	layerText                     // has a shell read text
	layerRefused                  // what runs cannot be told, or not by its name alone
)

// maxLayers is how many layers a command may have.
const maxLayers = 8

// A wrapper is how a program runs another one. There is a table of them.
type wrapper struct {
	use      use
	options  string // see newGrammar
	operands int    // words before the command, such as the DURATION of timeout
	reason   string // of refused ones: why it cannot be looked through
	idle     string // options with which it runs nothing
	effect   string // options that do more than the wrapper is known for
	alone    string // what it does without a command, if it is not nothing
	form     form   // how it differs from the others; nil: not at all
	language bool   // its arguments are no options; only form reads them

	grammar *grammar
}

type use int

const (
	transparent use = iota // layerArgv, clean
	owned                  // layerArgv, own
	refused                // layerRefused
)

// A form looks at a wrapper that is unlike others. It gets what the options
// are, and a layer that has the wrapper's name and the use of the table.
type form func(argv []Word, s scan, l layer) layer

// peel looks at the outermost layer of a command: argv[0] is the program,
// which is told by its base name, in any directory.
//
// It is pessimistic. Options have to be known, and every word up to the command
// has to be known too: a variable or a glob may be an option.
func peel(argv []Word) layer {
	if len(argv) == 0 || !argv[0].Static {
		return layer{}
	}
	name := normalizeName(argv[0].Text)
	if shellForms[name] != nil {
		return peelShell(name, argv)
	}
	if isLoader(name) {
		name = "ld.so"
	}
	if len(argv) > 1 && argv[1].Static {
		if w := wrappers[name+" "+argv[1].Text]; w != nil {
			return w.peel(name+" "+argv[1].Text, argv[1:])
		}
	}
	w := wrappers[name]
	if w == nil {
		return layer{}
	}
	return w.peel(name, argv)
}

func (w *wrapper) peel(name string, argv []Word) layer {
	l := layer{name: name}
	switch w.use {
	case transparent:
		l.kind, l.clean = layerArgv, true
	case owned:
		l.kind, l.own = layerArgv, true
	case refused:
		l.kind, l.own, l.reason = layerRefused, true, name+" "+w.reason
	}
	if w.language {
		return w.form(argv, scan{}, l)
	}
	s := w.grammar.read(argv)
	if s.stopped != "" {
		if _, ok := s.find("help"); ok {
			return layer{name: name}
		}
		return l.refuse(name+": "+s.stopped, argv[s.at:])
	}
	for _, o := range s.options {
		if o.name == "help" || o.name == "version" || hasField(w.idle, o.name) {
			return layer{name: name}
		}
	}
	for _, o := range s.options {
		if hasField(w.effect, o.name) {
			l.kind, l.clean, l.own, l.reason = layerRefused, false, true, name+" "+o.text+" does more than to run a command"
		}
	}
	if w.form != nil {
		return w.form(argv, s, l)
	}
	return w.run(argv[s.first(argv):], l)
}

// run is for the words behind the options: operands of the wrapper, and the
// command.
func (w *wrapper) run(words []Word, l layer) layer {
	if len(words) <= w.operands {
		if w.alone != "" {
			return l.refuse(l.name + " without a command " + w.alone)
		}
		return layer{name: l.name}
	}
	for _, word := range words[:w.operands+1] {
		if !word.Static {
			return l.refuse(l.name+": what "+quote(word.Text)+" stands for is not known", words)
		}
	}
	return l.runs(words[w.operands:])
}

// runs is the layer of a wrapper that runs a command.
func (l layer) runs(inner []Word) layer {
	if len(inner) > 0 && inner[0].Static && strings.HasPrefix(inner[0].Text, "-") {
		l.kind, l.clean, l.own = layerRefused, false, true
		l.reason = l.name + ": " + quote(inner[0].Text) + " is an option, or a program called like one"
	}
	l.inner = slices.Clip(inner)
	return l
}

// reads is the layer of a wrapper that has a shell read text.
func (l layer) reads(shell string, text Word, args []Word) layer {
	if l.kind != layerRefused {
		l.kind = layerText
	}
	l.clean, l.shell, l.text, l.args = false, shell, text, slices.Clip(args)
	return l
}

// refuse is the layer of a wrapper whose command cannot be told. It may begin
// at one of the first words that are no options.
func (l layer) refuse(reason string, words ...[]Word) layer {
	const guesses = 2 // each may be looked through again, so that more of them multiply
	l.kind, l.clean, l.own, l.reason = layerRefused, false, true, reason
	for _, words := range words {
		for i, w := range words {
			if len(l.more) < guesses && !(w.Static && strings.HasPrefix(w.Text, "-")) {
				l.more = append(l.more, slices.Clip(words[i:]))
			}
		}
	}
	return l
}

func isWrapper(name string) bool {
	return wrappers[name] != nil || isLoader(name)
}

func hasField(list, name string) bool {
	return slices.Contains(strings.Fields(list), name)
}

// isLoader reports whether name is that of a dynamic loader, which runs the
// program that it is given.
func isLoader(name string) bool {
	return name == "ld.so" || strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") || strings.HasPrefix(name, "ld64.so")
}

var duration = regexp.MustCompile(`^([0-9]+\.?[0-9]*|\.[0-9]+)([smhd]?)$`)

// timeoutForm: a first operand that is not a duration is a use that this table
// does not know.
func timeoutForm(argv []Word, s scan, l layer) layer {
	words := argv[s.first(argv):]
	if len(words) < 2 {
		return layer{name: l.name}
	}
	if !words[0].Static || !duration.MatchString(words[0].Text) {
		return l.refuse(l.name+": "+quote(words[0].Text)+" is not a duration", words)
	}
	if !words[1].Static {
		return l.refuse(l.name+": what "+quote(words[1].Text)+" stands for is not known", words[1:])
	}
	return l.runs(words[1:])
}

// envForm: with nothing but a command env is transparent. A variable that it
// sets, a directory or another environment make it a thing of its own, and
// whatever may change which program runs is refused.
func envForm(argv []Word, s scan, l layer) layer {
	at := s.first(argv)
	emptied := false
	refuse := func(reason string) {
		l.setsOnly = false
		if l.kind != layerRefused {
			l.kind, l.reason = layerRefused, l.name+": "+reason
		}
	}
	for _, o := range s.options {
		switch o.name {
		case "i":
			emptied = true
		case "u":
			emptied = emptied || o.value.Text == "PATH"
		case "S":
			// What it splits stands before the words that are left, and is
			// read as options too.
			words, ok := splitEnv(o.value.Text)
			reason := l.name + ": " + o.text + " makes several words of one"
			rest := slices.Concat(argv[:1], words, argv[o.last+1:])
			if !ok || len(words) == 0 {
				return l.refuse(reason, rest[1:])
			}
			if again := wrappers["env"].grammar.read(rest); again.stopped != "" {
				return l.refuse(reason, rest[again.at:])
			} else if _, ok := again.find("S"); ok { // and so on, for as long as it likes
				return l.refuse(reason, rest[again.first(rest):])
			}
			inner := peel(rest)
			inner.kind, inner.clean, inner.own, inner.reason = layerRefused, false, true, reason
			return inner
		}
		l.clean, l.own = false, true
	}
	if at < len(argv) && argv[at].Static && argv[at].Text == "-" { // as -i
		emptied, at = true, at+1
		l.clean, l.own = false, true
	}
	for ; at < len(argv); at++ {
		w := argv[at]
		name, value, ok := strings.Cut(w.Prefix, "=")
		if !w.Static && (!ok || w.mayBeOption()) {
			return l.refuse(l.name+": what "+quote(w.Text)+" stands for is not known", argv[at:])
		}
		if !ok {
			break
		}
		l.clean, l.own = false, true
		l.vars = append(l.vars, name)
		to := Word{Text: w.Text}
		if w.Static {
			to = Literal(value)
		}
		l.sets = append(l.sets, setting{name: name, value: to})
		if !w.Static && !isPlainVariable(name) || w.Static && plainVariable(name, value) != "" {
			only := l.setsOnly || l.kind != layerRefused
			refuse("the variable " + quote(name) + " may change what runs")
			l.setsOnly = only
		}
	}
	if len(l.vars) > 0 && at+1 < len(argv) && argv[at].Text == "--" {
		// To some the end of the options, to others the program.
		refuse(quote("--") + " stands behind a variable")
		at++
	}
	if at == len(argv) {
		return layer{name: l.name, vars: l.vars}
	}
	if emptied && !strings.Contains(argv[at].Text, "/") {
		refuse("without PATH, " + quote(argv[at].Text) + " may be another program")
	}
	if _, ok := s.find("C"); ok && !strings.HasPrefix(argv[at].Text, "/") {
		refuse("in another directory, " + quote(argv[at].Text) + " may be another program")
	}
	if l.kind == layerRefused {
		l.clean, l.own = false, true
	}
	return l.runs(argv[at:])
}

// splitEnv splits the text of env -S into words. It is for the rules that deny:
// nothing is ever allowed on the strength of it.
func splitEnv(text string) ([]Word, bool) {
	var words []Word
	var b strings.Builder
	in, known, quoted := false, true, byte(0)
	end := func() {
		if in {
			words = append(words, Word{Text: b.String(), Static: known})
			if known {
				words[len(words)-1].Prefix = b.String()
			}
		}
		in, known = false, true
		b.Reset()
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted != 0 && c == quoted:
			quoted = 0
		case quoted == 0 && (c == '\'' || c == '"'):
			quoted, in = c, true
		case quoted == 0 && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			end()
		case quoted == 0 && !in && c == '#':
			end()
			return words, true
		case c == '$' && quoted != '\'':
			in, known = true, false
			b.WriteByte(c)
		case c == '\\' && i+1 < len(text):
			i++
			switch next := text[i]; {
			case quoted == '\'' && next != '\'' && next != '\\':
				b.WriteString(text[i-1 : i+1])
			case next == 'c':
				end()
				return words, true
			case next == '_' && quoted == 0:
				end()
				continue
			case next == '_':
				b.WriteByte(' ')
			case strings.IndexByte("fnrtv", next) >= 0:
				b.WriteByte("\f\n\r\t\v"[strings.IndexByte("fnrtv", next)])
			default:
				b.WriteByte(next)
			}
			in = true
		default:
			in = true
			b.WriteByte(c)
		}
	}
	end()
	return words, quoted == 0
}
