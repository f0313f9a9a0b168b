package programs

import (
	"slices"
	"strings"
	"sync"
)

// Carrier reports whether the options or arguments of an ordinary program make
// it run another program, load code, or write a file although its purpose is
// not to write files. The reason is one line for people.
//
// It is called for every layer that has to be allowed by itself, wrappers
// included, and for the command in them.
//
// A rule that allows a program trusts the file at that path with everything that
// it does by itself and by its configuration. make runs the makefile of the
// directory, git the hooks of the repository, npm the scripts of the package, and
// cp and tee write files: a rule that allows them allows that. But such a rule
// does not let the command line choose another program or another place: make
// SHELL=…, git -c core.pager=…, tar --to-command, sort -o. Programs from whose
// prompt any other program can be started (editors, pagers, debuggers, terminals)
// are always carriers.
func Carrier(argv []Word) (reason string, hit bool) {
	if len(argv) == 0 || !argv[0].Static {
		return "", false
	}
	name := NormalizeName(argv[0].Text)
	if in, ok := named(interpreters(), name); ok {
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

// loadsCode says why an interpreter runs code beside its script: an option loads it, or
// there is no script; empty if it does not.
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
			return "" // it reads no code from standard input, or InlineCode or ScriptOperand finds the code
		}
	}
	if len(s.operands) > 0 {
		if _, why := bindable(name, argv, s.operands[0]); why == "" || !argv[s.operands[0]].Static {
			return ""
		}
	}
	return name + FromInput
}

// A carrierUse says which uses of a program or subcommand are carriers.
type carrierUse struct {
	grammar *grammar
	always  string                                   // why every use is a carrier
	sub     map[string]*carrierUse                   // subcommands
	ordered bool                                     // its own options stand before the subcommand
	help    string                                   // why --help, in place of a subcommand or behind it, is a carrier
	unknown string                                   // why a subcommand that is not listed is a carrier; empty: it is not
	words   func(argv []Word, operands []int) string // checks the words that are no options
}

// look says why argv is a carrier; empty if it is not. The first word is the program, or a
// subcommand.
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
		// If it is the value of the option before it, a later word is the subcommand.
		for _, i := range s.operands[1:] {
			if sub := c.sub[argv[i].Text]; sub != nil {
				return sub.look(name+" "+argv[i].Text, argv[i:])
			}
		}
	}
	return ""
}

// nowhere reports whether writing to this path writes no file.
func nowhere(file string) bool {
	return file == "-" || file == "/dev/null" || file == "/dev/stdout" || file == "/dev/stderr"
}

// indifferent reports whether no arguments can make it a carrier.
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

// carrierUses is the table that carriers returns.
var (
	carrierUses     = map[string]*carrierUse{}
	carrierUsesMade sync.Once
)

// carriers is the table in carrier_table.go and carrier_git.go, by program.
func carriers() map[string]*carrierUse {
	carrierUsesMade.Do(func() { makeCarriers(slices.Concat(carrierTable, gitTable)) })
	return carrierUses
}

// makeCarriers makes carrierUses of the rows of the tables.
func makeCarriers(rows []carrierRow) {
	clear(carrierUses)
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
	table := carrierUses
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
