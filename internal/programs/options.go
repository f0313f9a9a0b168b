package programs

import (
	"path"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// A grammar describes how a program reads its options, as far as it matters here.
// The tables of wrappers, carriers, interpreters and inline code have one for each
// program, and the scanner in this file reads words by it.
type grammar struct {
	short  map[byte]*option
	long   map[string]*option // behind two dashes
	single map[string]*option // of more than one letter, behind one dash
	digits bool               // -NUM is an option
}

// An option is an option of a program, with all its spellings.
type option struct {
	name  string // the first of its spellings, without dashes
	takes takes
	why   string // for carriers: what it does
}

// takes says whether and how an option takes a value.
type takes byte

const (
	noValue  takes = iota
	hasValue       // attached, or the next word
	attached       // attached or none
	number         // digits behind it in the same word, or none
)

// newGrammar reads a list of options, separated by white space. An option is a list of
// spellings, separated by commas: one letter, a long name, or "-name" for a long name
// with one dash. Behind the last spelling, ':' means that a value follows, '?' that a
// value may be attached, '%' that a number may be attached. "#" is -NUM.
func newGrammar(list string) *grammar {
	g := &grammar{short: map[byte]*option{}, long: map[string]*option{}, single: map[string]*option{}}
	g.add(list, "")
	return g
}

func (g *grammar) add(list, why string) {
	for field := range strings.FieldsSeq(list) {
		if field == "#" {
			g.digits = true
			continue
		}
		o := &option{why: why}
		if names, ok := strings.CutSuffix(field, ":"); ok {
			field, o.takes = names, hasValue
		} else if names, ok := strings.CutSuffix(field, "?"); ok {
			field, o.takes = names, attached
		} else if names, ok := strings.CutSuffix(field, "%"); ok {
			field, o.takes = names, number
		}
		for i, name := range strings.Split(field, ",") {
			bare := strings.TrimPrefix(name, "-")
			if i == 0 {
				o.name = bare
			}
			switch {
			case bare != name:
				g.single[bare], g.long[bare] = o, o // such programs accept one or two dashes
			case len(name) == 1:
				g.short[name[0]] = o
			default:
				g.long[name] = o
			}
		}
	}
}

// A given is an option that stands in a command.
type given struct {
	*option
	text  string // as written: -c, --eval
	value Word   // if it has one
	at    int    // index of its word
	last  int    // index of the word with its value; at if it is the same
}

// A scan is the options and operands of a command.
type scan struct {
	options  []given
	operands []int // the words that are neither options nor values of options
	// stopped says why the words from `at` on could not be read: an unknown option,
	// or a word that is not known. Empty: all were read.
	stopped string
	at      int
	unsure  bool // set by search: there was an unknown option
}

func (s scan) find(names ...string) (given, bool) {
	for _, o := range s.options {
		for _, name := range names {
			if o.name == name {
				return o, true
			}
		}
	}
	return given{}, false
}

// first is the index of the first operand; len(argv) if there is none.
func (s scan) first(argv []Word) int {
	if len(s.operands) == 0 {
		return len(argv)
	}
	return s.operands[0]
}

// read reads the options before the first operand, as wrappers and interpreters do.
// Every option and the first operand have to be known; all words after it are operands.
func (g *grammar) read(argv []Word) scan {
	var s scan
	stop := func(i int, why string) scan { s.stopped, s.at = why, i; return s }
	rest := func(i int) scan {
		for ; i < len(argv); i++ {
			s.operands = append(s.operands, i)
		}
		return s
	}
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch {
		case !w.Static:
			return stop(i, "what "+Quote(w.Text)+" stands for is not known")
		case w.Text == "--":
			if i+1 < len(argv) && !argv[i+1].Static {
				return stop(i+1, "what "+Quote(argv[i+1].Text)+" stands for is not known")
			}
			return rest(i + 1)
		case len(w.Text) < 2 || w.Text[0] != '-':
			return rest(i)
		}
		opts, ok := g.word(w.Text, i)
		if !ok {
			return stop(i, "option "+Quote(w.Text)+" is not known")
		}
		if last := &opts[len(opts)-1]; last.last > i { // its value is the next word
			if i+1 == len(argv) {
				return stop(i, "option "+Quote(w.Text)+" has no value")
			}
			if i++; !argv[i].Static {
				return stop(i, "what "+Quote(argv[i].Text)+" stands for is not known")
			}
			last.value = argv[i]
		}
		s.options = append(s.options, opts...)
	}
	return s
}

// word reads a word as options; each has to be known. If the value of the last option is
// in the next word, last is the index of that word.
func (g *grammar) word(text string, i int) ([]given, bool) {
	if name, val, has := strings.Cut(text[1:], "="); g.single[name] != nil {
		return one(g.single[name], text, val, has, i)
	}
	if name, ok := strings.CutPrefix(text, "--"); ok {
		name, val, has := strings.Cut(name, "=")
		o := g.long[name]
		if o == nil {
			if o = g.abbreviated(name); o == nil {
				return nil, false
			}
		}
		return one(o, "--"+name, val, has, i)
	}
	if g.digits && digits(text[1:]) {
		return []given{{option: &option{name: "#"}, text: text, at: i, last: i}}, true
	}
	var opts []given
	for k := 1; k < len(text); k++ {
		o := g.short[text[k]]
		if o == nil {
			return nil, false
		}
		f := given{option: o, text: "-" + text[k:k+1], at: i, last: i}
		rest := text[k+1:]
		switch {
		case o.takes == number:
			k += len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		case o.takes != noValue && rest != "":
			f.value = Literal(rest)
			return append(opts, f), true
		case o.takes == hasValue:
			f.last = i + 1
		}
		opts = append(opts, f)
	}
	return opts, true
}

// one reads a word as one long option.
func one(o *option, text, val string, has bool, i int) ([]given, bool) {
	f := given{option: o, text: text, at: i, last: i}
	switch {
	case has && o.takes == noValue:
		return nil, false
	case has:
		f.value = Literal(val)
		f.text, _, _ = strings.Cut(text, "=")
	case o.takes == hasValue:
		f.last = i + 1
	}
	return []given{f}, true
}

// abbreviated is the option that a name is an abbreviation of, if there is just one.
func (g *grammar) abbreviated(name string) *option {
	var only *option
	for long, o := range g.long {
		if name == "" || !strings.HasPrefix(long, name) || o == only {
			continue
		}
		if only != nil {
			return nil
		}
		only = o
	}
	return only
}

// search reads options anywhere, as most programs do. It is pessimistic and finds every
// option that might be there: an unknown option is read both with and without a value, a
// cluster is searched to its end, and an unknown word counts as an option without a name.
//
// If permute is false, it ends at the first operand.
func (g *grammar) search(argv []Word, permute bool) scan {
	var s scan
	unsure := false // the word before may be an option with this one as its value
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		after := unsure
		unsure = false
		switch {
		case !w.Static && w.MayBeOption():
			s.options = append(s.options, given{option: &option{why: "what it stands for is not known"}, text: w.Text, at: i, last: i})
			continue
		case w.Static && w.Text == "--" && !after:
			for i++; i < len(argv); i++ {
				s.operands = append(s.operands, i)
			}
			return s
		case !w.Static || len(w.Text) < 2 || w.Text[0] != '-':
			s.operands = append(s.operands, i)
			if permute || after {
				continue
			}
			for i++; i < len(argv); i++ {
				s.operands = append(s.operands, i)
			}
			return s
		}
		var opts []given
		opts, unsure = g.guess(w.Text, i)
		s.unsure = s.unsure || unsure
		s.options = append(s.options, opts...)
		if n := len(opts); n > 0 && opts[n-1].last > i && i+1 < len(argv) {
			next := argv[i+1]
			s.options[len(s.options)-1].value = next
			if !unsure && (next.Static || !next.MayBeOption()) { // otherwise next may be no word, or several
				i++
			}
		}
	}
	return s
}

// guess reads a word as options although some are not known. It also reports whether one
// of them may take the next word as its value.
func (g *grammar) guess(text string, i int) ([]given, bool) {
	if opts, ok := g.word(text, i); ok {
		name := strings.TrimPrefix(opts[0].text, "--")
		short := name != opts[0].text && g.long[name] == nil
		// The meaning of an abbreviation depends on options that are not listed here.
		return opts, short && opts[0].takes == hasValue
	}
	var opts []given
	if name, ok := strings.CutPrefix(text, "--"); ok {
		name, val, has := strings.Cut(name, "=")
		if dashed := strings.ReplaceAll(name, "_", "-"); g.long[dashed] != nil { // the same to node and others
			opts, _ := one(g.long[dashed], "--"+name, val, has, i)
			return opts, true
		}
		for long, o := range g.long {
			if o.why != "" && name != "" && strings.HasPrefix(long, name) {
				f := given{option: o, text: "--" + name, at: i, last: i}
				if has {
					f.value = Literal(val)
				}
				opts = append(opts, f)
			}
		}
		return opts, !has
	}
	for k := 1; k < len(text); k++ {
		if len(g.single) > 0 && len(text) > 2 {
			break // such programs have no clusters
		}
		if o := g.short[text[k]]; o != nil {
			f := given{option: o, text: "-" + text[k:k+1], at: i, last: i}
			if rest := text[k+1:]; rest != "" {
				f.value = Literal(rest)
			} else if o.takes == hasValue {
				f.last = i + 1
			}
			opts = append(opts, f)
		}
	}
	return opts, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Quote shows a word of a command in a reason, in one line and not too long.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s) + `"`
}

// NormalizeName is the name of a program without its directory: the base name of its
// path, in lower case, without the endings of Windows.
func NormalizeName(path string) string {
	name := strings.TrimSpace(path)
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.ToLower(name)
	for _, ending := range []string{".exe", ".cmd", ".bat", ".com"} {
		if base, ok := strings.CutSuffix(name, ending); ok && base != "" {
			return base
		}
	}
	return name
}

// family is a program's name without its version: python for python3.11.
func family(name string) string {
	if base := strings.TrimRight(name, "0123456789.-"); base != "" {
		return base
	}
	return name
}

// variant matches the parts of a name in which variants of one program differ: the system
// that it compiles for, and how it was built.
var variant = lazy.Regexp(`^[a-z0-9_]+-(?:[a-z0-9_]+-)?(?:linux|gnu|darwin|freebsd|w64)[a-z0-9_]*-(?:[a-z0-9_]+-)?|\.(?:bfd|gold|basic|tiny|nox|athena|gtk3?|motif|openbsd|traditional|ucb|real|distrib|bin)$`)

// plainName is a name without version and variant.
func plainName(name string) string {
	if name = family(name); strings.ContainsAny(name, "-.") { // most have none
		name = variant().ReplaceAllString(name, "")
	}
	return path.Base(name)
}

// named looks a program up in a table: by its name, then by that of its family, then by
// its plainName.
func named[T any](table map[string]T, name string) (T, bool) {
	if v, ok := table[name]; ok {
		return v, true
	}
	if v, ok := table[family(name)]; ok {
		return v, true
	}
	v, ok := table[plainName(name)]
	return v, ok
}

// spaced is the text of words joined by spaces. Words may be unknown.
func spaced(words []Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Text)
	}
	return b.String()
}

// joined joins words by spaces into one, as eval and ssh do.
func joined(words []Word) Word {
	if len(words) == 1 {
		return words[0]
	}
	text := spaced(words)
	for i, w := range words {
		if !w.Static {
			return Word{Text: text, Prefix: spaced(words[:i])}
		}
	}
	return Literal(text)
}
