package programs

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// A Layer describes one wrapper of a command. Layers are peeled until none is left.
type Layer struct {
	Kind layerKind
	Name string // the wrapper's, for people

	// Inner is the program that runs, and its arguments. A refused layer has it too if
	// it is known, for the deny rules.
	Inner []Word
	// More are further commands that run (several -exec). In a refused layer they are
	// guesses at the command, for the deny rules.
	More [][]Word

	Text  Word   // shell text; not Static: it is not known
	Shell string // base name of the shell that reads Text; empty: the one that reads this command
	args  []Word // $0, $1 … of Text

	Sets     []Setting // variables that it sets for the program it runs
	SetsOnly bool      // these are the only reason why it is refused

	// clean: without the wrapper, only priority, timing, buffering and the like
	// would differ.
	clean bool
	// Own: the wrapper itself has to be allowed too, not only the program it runs.
	Own bool
	// Moves: the program may run in another directory than the wrapper.
	Moves bool
	// Vars are the names of variables that it sets.
	Vars   []string
	Reason string // why the layer is refused
}

type layerKind int

const (
	LayerNone    layerKind = iota // no wrapper, or one that runs nothing
	layerArgv                     // runs inner
	LayerText                     // runs a shell that reads text
	LayerRefused                  // its program is not known, or not by its name alone
)

// MaxLayers is how many layers a command may have.
const MaxLayers = 8

// A wrapper describes how a program runs another one. There is a table of them.
type wrapper struct {
	use      use
	options  string // see newGrammar
	operands int    // words before the command, such as the DURATION of timeout
	reason   string // why a refused wrapper is refused
	idle     string // options with which it runs nothing
	effect   string // options that do more than the wrapper's usual work
	alone    string // what it does without a command; empty: nothing
	form     form   // how it differs from the others; nil: not at all
	language bool   // its arguments are no options; only form reads them

	grammar *grammar
}

type use int

const (
	transparent use = iota // layerArgv, clean
	owned                  // layerArgv, own
	refused                // LayerRefused
)

// A form reads the arguments of a wrapper that is unlike others. It gets the scanned
// options, and a layer with the wrapper's name and its use from the table.
type form func(argv []Word, s scan, l Layer) Layer

// Peel reads the outermost layer of a command. argv[0] is the program; its base name
// counts, not its directory.
//
// It is pessimistic. All options have to be known, and every word before the inner
// command too: a variable or a glob may be an option.
func Peel(argv []Word) Layer {
	if len(argv) == 0 || !argv[0].Static {
		return Layer{}
	}
	name := NormalizeName(argv[0].Text)
	if shellForms[name] != nil {
		return peelShell(name, argv)
	}
	if isLoader(name) {
		name = "ld.so"
	}
	if subcommands[name] {
		if l := peelSubcommand(name, argv); l.Kind != LayerNone {
			return l
		}
	}
	w := wrappers()[name]
	if w == nil {
		return Layer{}
	}
	return w.peel(name, argv)
}

// peelSubcommand reads the layer of a subcommand that is a wrapper. Options may stand before
// it, and the word behind an option may be its value. For managers of packages,
// packageCommand looks at what stands behind options.
func peelSubcommand(name string, argv []Word) Layer {
	for i, word := range argv[1:] {
		if _, ok := packageManagers[name]; ok && i > 0 {
			break
		}
		before := argv[i]
		switch option := i > 0 && before.MayBeOption() && !strings.Contains(before.Prefix, "="); {
		case !word.Static && wrappers()[name] == nil && carriers()[name] == nil:
			return Layer{Name: name}.refuse("which command of "+name+" "+Quote(word.Text)+" stands for is not known", argv[i+1:])
		case !word.Static:
			return Layer{}
		case wrappers()[name+" "+word.Text] != nil:
			return wrappers()[name+" "+word.Text].peel(name+" "+word.Text, argv[i+1:])
		case !word.MayBeOption() && !option:
			return Layer{}
		}
	}
	return Layer{}
}

func (w *wrapper) peel(name string, argv []Word) Layer {
	l := Layer{Name: name}
	switch w.use {
	case transparent:
		l.Kind, l.clean = layerArgv, true
	case owned:
		l.Kind, l.Own = layerArgv, true
	case refused:
		l.Kind, l.Own, l.Reason = LayerRefused, true, name+" "+w.reason
	}
	if w.language {
		return w.form(argv, scan{}, l)
	}
	s := w.grammar.read(argv)
	if s.stopped != "" {
		if _, ok := s.find("help"); ok {
			return Layer{Name: name}
		}
		return l.refuse(name+": "+s.stopped, argv[s.at:])
	}
	for _, o := range s.options {
		if o.name == "help" || o.name == "version" || HasField(w.idle, o.name) {
			return Layer{Name: name}
		}
	}
	for _, o := range s.options {
		if HasField(w.effect, o.name) {
			l.Kind, l.clean, l.Own, l.Reason = LayerRefused, false, true, name+" "+o.text+" does more than to run a command"
		}
	}
	if w.form != nil {
		return w.form(argv, s, l)
	}
	return w.run(argv[s.first(argv):], l)
}

// run makes the layer from the words behind the options: the wrapper's operands and the
// command.
func (w *wrapper) run(words []Word, l Layer) Layer {
	if len(words) <= w.operands {
		if w.alone != "" {
			return l.refuse(l.Name + " without a command " + w.alone)
		}
		return Layer{Name: l.Name}
	}
	for _, word := range words[:w.operands+1] {
		if !word.Static {
			return l.refuse(l.Name+": what "+Quote(word.Text)+" stands for is not known", words)
		}
	}
	return l.runs(words[w.operands:])
}

// runs is the layer of a wrapper that runs a command.
func (l Layer) runs(inner []Word) Layer {
	if len(inner) > 0 && inner[0].Static && strings.HasPrefix(inner[0].Text, "-") {
		l.Kind, l.clean, l.Own = LayerRefused, false, true
		l.Reason = l.Name + ": " + Quote(inner[0].Text) + " is an option, or a program called like one"
	}
	l.Inner = slices.Clip(inner)
	return l
}

// reads is the layer of a wrapper that runs a shell with text.
func (l Layer) reads(shell string, text Word, args []Word) Layer {
	if l.Kind != LayerRefused {
		l.Kind = LayerText
	}
	l.clean, l.Shell, l.Text, l.args = false, shell, text, slices.Clip(args)
	return l
}

// refuse is the layer of a wrapper whose command is not known. The guesses are that it
// begins at one of the first words that are no options.
func (l Layer) refuse(reason string, words ...[]Word) Layer {
	const guesses = 2 // each guess is peeled again, so their number grows exponentially
	l.Kind, l.clean, l.Own, l.Reason = LayerRefused, false, true, reason
	for _, words := range words {
		for i, w := range words {
			if len(l.More) < guesses && !(w.Static && strings.HasPrefix(w.Text, "-")) {
				l.More = append(l.More, slices.Clip(words[i:]))
			}
		}
	}
	return l
}

func isWrapper(name string) bool {
	return wrappers()[name] != nil || isLoader(name)
}

func HasField(list, name string) bool {
	for field := range strings.FieldsSeq(list) {
		if field == name {
			return true
		}
	}
	return false
}

// isLoader reports whether name is that of a dynamic loader, which runs the program in its
// arguments.
func isLoader(name string) bool {
	return name == "ld.so" || strings.HasPrefix(name, "ld-") && strings.Contains(name, ".so") || strings.HasPrefix(name, "ld64.so")
}

var duration = lazy.Regexp(`^([0-9]+\.?[0-9]*|\.[0-9]+)([smhd]?)$`)

// timeoutForm: if the first operand is not a duration, the table does not know this use.
func timeoutForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) < 2 {
		return Layer{Name: l.Name}
	}
	if !words[0].Static || !duration().MatchString(words[0].Text) {
		return l.refuse(l.Name+": "+Quote(words[0].Text)+" is not a duration", words)
	}
	if !words[1].Static {
		return l.refuse(l.Name+": what "+Quote(words[1].Text)+" stands for is not known", words[1:])
	}
	return l.runs(words[1:])
}

// envForm: with only a command, env is transparent. If it sets a variable, a directory or
// another environment, it has to be allowed itself. If that may change which program runs,
// it is refused.
func envForm(argv []Word, s scan, l Layer) Layer {
	at := s.first(argv)
	emptied := false
	refuse := func(reason string) {
		l.SetsOnly = false
		if l.Kind != LayerRefused {
			l.Kind, l.Reason = LayerRefused, l.Name+": "+reason
		}
	}
	for _, o := range s.options {
		switch o.name {
		case "i":
			emptied = true
		case "u":
			emptied = emptied || o.value.Text == "PATH"
		case "S":
			// The words that it splits come before the rest, and are read as
			// options too.
			words, ok := splitEnv(o.value.Text)
			reason := l.Name + ": " + o.text + " makes several words of one"
			rest := slices.Concat(argv[:1], words, argv[o.last+1:])
			if !ok || len(words) == 0 {
				return l.refuse(reason, rest[1:])
			}
			if again := wrappers()["env"].grammar.read(rest); again.stopped != "" {
				return l.refuse(reason, rest[again.at:])
			} else if _, ok := again.find("S"); ok { // another -S: do not follow it further
				return l.refuse(reason, rest[again.first(rest):])
			}
			inner := Peel(rest)
			inner.Kind, inner.clean, inner.Own, inner.Reason = LayerRefused, false, true, reason
			return inner
		}
		l.clean, l.Own = false, true
	}
	if at < len(argv) && argv[at].Static && argv[at].Text == "-" { // as -i
		emptied, at = true, at+1
		l.clean, l.Own = false, true
	}
	for ; at < len(argv); at++ {
		w := argv[at]
		name, value, ok := strings.Cut(w.Prefix, "=")
		if !w.Static && (!ok || w.MayBeOption()) {
			return l.refuse(l.Name+": what "+Quote(w.Text)+" stands for is not known", argv[at:])
		}
		if !ok {
			break
		}
		l.clean, l.Own = false, true
		l.Vars = append(l.Vars, name)
		to := Word{Text: w.Text}
		if w.Static {
			to = Literal(value)
		}
		l.Sets = append(l.Sets, Setting{Name: name, Value: to})
		if !w.Static && !isPlainVariable(name) || w.Static && PlainVariable(name, value) != "" {
			only := l.SetsOnly || l.Kind != LayerRefused
			refuse("the variable " + Quote(name) + " may change what runs")
			l.SetsOnly = only
		}
	}
	if len(l.Vars) > 0 && at+1 < len(argv) && argv[at].Text == "--" {
		// For some programs it ends the options, for others it is the program.
		refuse(Quote("--") + " stands behind a variable")
		at++
	}
	if at == len(argv) {
		return Layer{Name: l.Name, Vars: l.Vars}
	}
	if emptied && !strings.Contains(argv[at].Text, "/") {
		refuse("without PATH, " + Quote(argv[at].Text) + " may be another program")
	}
	_, l.Moves = s.find("C")
	if l.Moves && !strings.HasPrefix(argv[at].Text, "/") {
		refuse("in another directory, " + Quote(argv[at].Text) + " may be another program")
	}
	if l.Kind == LayerRefused {
		l.clean, l.Own = false, true
	}
	return l.runs(argv[at:])
}

// splitEnv splits the text of env -S into words. Only deny rules use the result; nothing
// is allowed by it.
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
