package programs

import (
	"path"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// A grammar is how a program reads its options, as far as it matters here.
// Wrappers, carriers, interpreters and inline code all have theirs in a table,
// and one scanner reads them.
type grammar struct {
	short  map[byte]*option
	long   map[string]*option // behind two dashes
	single map[string]*option // of more than one letter, behind one dash
	digits bool               // -NUM is an option
}

// An option is one of a program's, whatever its spellings.
type option struct {
	name  string // the first of its spellings, without dashes
	takes takes
	why   string // of carriers: what it does
}

// takes is whether an option takes a value.
type takes byte

const (
	noValue  takes = iota
	hasValue       // attached, or the next word
	attached       // attached or none
	number         // digits behind it in the same word, or none
)

// newGrammar reads a list of options, separated by white space. Each is its
// spellings, separated by commas: one letter, a long name, or "-name" where a
// long name has one dash. Behind the last, ':' says that a value follows, '?'
// that one may be attached, '%' that a number may. "#" is -NUM.
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
				g.single[bare], g.long[bare] = o, o // such programs take either
			case len(name) == 1:
				g.short[name[0]] = o
			default:
				g.long[name] = o
			}
		}
	}
}

// A given option stands in a command.
type given struct {
	*option
	text  string // as written: -c, --eval
	value Word   // if it has one
	at    int    // of the word
	last  int    // of the word that holds its value; at if it is the same
}

// A scan is what there is of options in a command.
type scan struct {
	options  []given
	operands []int // the words that are not options, nor values of them
	// stopped says why nothing can be said of what begins at word `at`: an
	// unknown option, or a word that is not known. Empty: all is known.
	stopped string
	at      int
	unsure  bool // of search: there was an option that is not known
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

// first is where the operands begin; len(argv) if there are none.
func (s scan) first(argv []Word) int {
	if len(s.operands) == 0 {
		return len(argv)
	}
	return s.operands[0]
}

// read reads the options before the first operand, as wrappers and
// interpreters do. Every one has to be known, as has the first operand; after
// it, everything is an operand.
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

// word reads a word as options. Each has to be known. The last is said to end in
// the next word if its value is there.
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

// one is a long option.
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

// abbreviated is the one option that a name can be short for.
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

// search reads options anywhere, as most programs do, and finds whatever might
// be one that the grammar has a reason against: unknown options are taken for
// ones without a value and with one, a cluster is searched to its end, and a
// word that is not known is found as an option without a name.
//
// If permute is false, it ends at the first operand.
func (g *grammar) search(argv []Word, permute bool) scan {
	var s scan
	unsure := false // the word before may be an option that takes this one
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
			if !unsure && (next.Static || !next.MayBeOption()) { // else it may be nothing, or several
				i++
			}
		}
	}
	return s
}

// guess reads a word as options when some of them are not known. It reports whether
// one of them may take the next word, which is not certain.
func (g *grammar) guess(text string, i int) ([]given, bool) {
	if opts, ok := g.word(text, i); ok {
		name := strings.TrimPrefix(opts[0].text, "--")
		short := name != opts[0].text && g.long[name] == nil
		// What an abbreviation is short for depends on the other options.
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

// NormalizeName is what a program is called, whichever directory it is in: the
// base name of its path, in lower case, without the endings of Windows.
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

// variant is what the names of one program differ by: the system that it compiles
// for, and how it was built.
var variant = lazy.Regexp(`^[a-z0-9_]+-(?:[a-z0-9_]+-)?(?:linux|gnu|darwin|freebsd|w64)[a-z0-9_]*-(?:[a-z0-9_]+-)?|\.(?:bfd|gold|basic|tiny|nox|athena|gtk3?|motif|openbsd|traditional|ucb|real|distrib|bin)$`)

// plainName is a name without what tells variants of one program apart.
func plainName(name string) string {
	if name = family(name); strings.ContainsAny(name, "-.") { // most have none
		name = variant().ReplaceAllString(name, "")
	}
	return path.Base(name)
}

// named looks a program up in a table, by its name, by that of its family, and
// by that without what tells variants apart.
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

// spaced is the text of words. Each may be unknown.
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

// joined are words joined by spaces, as eval and ssh do.
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
