package programs

import (
	"slices"
	"strings"
	"sync"
)

// Carrier reports whether the options or arguments of an ordinary program have
// it run another program, load code, or write a file where its work is not to
// write files. The reason is one line for people.
//
// It is asked about every layer that has to be allowed by itself, wrappers
// included, and about the command within.
//
// The line it draws: a rule that allows a program trusts the file at that path,
// in what it does by itself and by its configuration. So make runs the makefile
// of the directory, git the hooks of the repository, npm the scripts of the
// package, and cp and tee write: a rule that allows them allows that. A rule on a
// path does not allow the command line to choose another program or another
// place: make SHELL=…, git -c core.pager=…, tar --to-command, sort -o.
// Programs that are a prompt from which anything runs (editors, pagers,
// debuggers, terminals) are always carriers.
func Carrier(argv []Word) (reason string, hit bool) {
	if len(argv) == 0 || !argv[0].Static {
		return "", false
	}
	name := NormalizeName(argv[0].Text)
	if in, ok := named(interpreters, name); ok {
		if why := in.loadsCode(name, argv); why != "" {
			return why, true
		}
	}
	c, ok := named(carriers(), name)
	if !ok {
		return "", false
	}
	why := c.look(name, argv)
	return why, why != ""
}

// loadsCode says what has an interpreter run code beside a script that it
// names: an option, or that there is no script.
func (in *interpreter) loadsCode(name string, argv []Word) string {
	s := in.grammar.search(argv, in.permute)
	for _, o := range s.options {
		if HasField(in.module, o.name) && in.ends != "" {
			return name + " " + o.text + " runs a module, wherever it is found"
		}
		if HasField(in.ends, o.name) {
			break
		}
		if HasField(in.loads, o.name) {
			return name + " " + o.text + " loads further code"
		}
		if in.program && HasField(in.file, o.name) {
			return name + " " + o.text + " runs code of a file, which the rule is not about"
		}
	}
	if in.program || in.permute {
		return ""
	}
	for _, o := range s.options {
		if o.name == "" || HasField(in.code, o.name) || HasField(in.file, o.name) || HasField(in.idle, o.name) || HasField(in.module, o.name) {
			return "" // not read from there, or found as what it is
		}
	}
	if len(s.operands) > 0 {
		if _, why := bindable(name, argv, s.operands[0]); why == "" || !argv[s.operands[0]].Static {
			return ""
		}
	}
	return name + FromInput
}

// A carrierUse is what there is to find in the use of one program.
type carrierUse struct {
	grammar *grammar
	always  string                                   // why every use is one
	sub     map[string]*carrierUse                   // subcommands
	ordered bool                                     // its own options stand before the subcommand
	help    string                                   // what --help does, in place of its subcommand or behind it
	unknown string                                   // why a subcommand that is not listed is one; empty: it is not
	words   func(argv []Word, operands []int) string // looks at what is no option
}

// look says what it finds in argv. The first word is the program, or a subcommand.
func (c *carrierUse) look(name string, argv []Word) string {
	if c.always != "" {
		return name + " " + c.always
	}
	s := c.grammar.search(argv, c.sub == nil || !c.ordered)
	for _, o := range s.options {
		switch {
		case o.name == "" && !c.indifferent():
			return name + " may get an option: what " + Quote(o.text) + " stands for is not known"
		case o.name != "" && o.why == writes && o.takes == hasValue && o.value.Static && nowhere(o.value.Text):
		case o.name != "" && o.why != "":
			return name + " " + o.text + " " + o.why
		}
	}
	if c.words != nil {
		if why := c.words(argv, s.operands); why != "" {
			return name + " " + why
		}
	}
	if c.sub == nil || len(s.operands) == 0 {
		return ""
	}
	at := s.operands[0]
	w := argv[at]
	if !w.Static {
		return "which command of " + name + " " + Quote(w.Text) + " stands for is not known"
	}
	if c.help != "" && slices.ContainsFunc(argv[1:min(at+2, len(argv))], func(w Word) bool { return w.Static && w.Text == "--help" }) {
		return name + " --help " + c.help
	}
	if sub := c.sub[w.Text]; sub != nil {
		return sub.look(name+" "+w.Text, argv[at:])
	}
	if c.unknown != "" {
		return name + " " + Quote(w.Text) + " " + c.unknown
	}
	if s.unsure {
		// The option before it may take it as its value: the next may be it.
		for _, i := range s.operands[1:] {
			if sub := c.sub[argv[i].Text]; sub != nil {
				return sub.look(name+" "+argv[i].Text, argv[i:])
			}
		}
	}
	return ""
}

// nowhere reports whether what is written to a file is written to none.
func nowhere(file string) bool {
	return file == "-" || file == "/dev/null" || file == "/dev/stdout" || file == "/dev/stderr"
}

// indifferent reports whether there is nothing to find in its arguments.
func (c *carrierUse) indifferent() bool {
	if c.words != nil {
		return false
	}
	for _, set := range []map[string]*option{c.grammar.long, c.grammar.single} {
		for _, o := range set {
			if o.why != "" {
				return false
			}
		}
	}
	for _, o := range c.grammar.short {
		if o.why != "" {
			return false
		}
	}
	return c.sub == nil
}

// carriers is the table in carrier_table.go and carrier_git.go, by program. It is made
// when it is first asked for: that takes longer than all else that a program does which
// has it linked and decides on nothing.
func carriers() map[string]*carrierUse {
	carriersMade()
	return carrierOf
}

var (
	carrierOf    = map[string]*carrierUse{}
	carriersMade = sync.OnceFunc(func() { makeCarriers(slices.Concat(carrierTable, gitTable)) })
)

// makeCarriers makes carriers of the rows of the tables.
func makeCarriers(rows []carrierRow) {
	clear(carrierOf)
	for _, row := range rows {
		for names := range strings.SplitSeq(row.programs, ",") {
			c := carrierFor(strings.Fields(names))
			switch {
			case row.options == "*":
				c.always = row.why
			case row.why != "":
				c.grammar.add(row.options, row.why)
			default:
				c.grammar.add(row.options, "")
			}
		}
	}
	for name, words := range carrierWords {
		carrierFor(strings.Fields(name)).words = words
	}
	for name := range strings.FieldsSeq(javaTools) {
		carrierFor([]string{name}).words = javaTool
	}
	git := carrierFor([]string{"git"})
	for sub := range strings.FieldsSeq(gitCommands) {
		carrierFor([]string{"git", sub})
	}
	git.help = gitMan
	git.ordered = true
	git.unknown = "may be an alias, which can be any command, or a program of its own"
}

// carrierFor is the entry of a program, or of a subcommand of one.
func carrierFor(path []string) *carrierUse {
	table := carrierOf
	var c *carrierUse
	for i, name := range path {
		if c = table[name]; c == nil {
			c = &carrierUse{grammar: newGrammar("")}
			table[name] = c
		}
		if i+1 < len(path) {
			if c.sub == nil {
				c.sub = map[string]*carrierUse{}
			}
			table = c.sub
		}
	}
	return c
}
