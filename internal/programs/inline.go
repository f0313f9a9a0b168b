package programs

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// InlineCode reports whether a command has code among its arguments, which its
// program runs. The label says where: "python3 -c", "awk inline program".
//
// All program text of awk and sed counts: both have commands that run a shell and
// write files, and the text alone does not show them safely. -exec of find and the
// command of xargs count too; Peel finds the command in them. A file that is named
// on the command line (awk -f) does not count as code in the arguments. For make it
// does, since a makefile elsewhere is another program.
func InlineCode(argv []Word) (label string, hit bool) {
	if len(argv) == 0 || !argv[0].Static {
		return "", false
	}
	name := NormalizeName(argv[0].Text)
	switch name {
	case "find", "gfind":
		for _, w := range argv[1:] {
			if w.Static && findRuns[w.Text] {
				return name + " " + w.Text, true
			}
		}
		return "", false
	case "xargs", "gxargs":
		if l := Peel(argv); len(l.Inner) == 0 || l.Inner[0].At > 0 || l.Inner[0].Text != "echo" {
			return name + " inline command", true
		}
		return "", false // it prints what it reads
	case "deno":
		if len(argv) > 1 && argv[1].Text == "eval" {
			return "deno eval", true
		}
	}
	in, ok := named(interpreters(), name)
	if !ok {
		return "", false
	}
	s := in.grammar.search(argv, in.permute)
	file := false
	for _, o := range s.options {
		if HasField(in.ends, o.name) && !HasField(in.code, o.name) {
			break
		}
		switch {
		case o.option.name == "":
			if in.program || in.code != "" {
				return name + " " + Quote(o.text), true
			}
		case HasField(in.code, o.name):
			return name + " " + o.text, true
		}
		file = file || HasField(in.file, o.name) && o.takes == hasValue
	}
	if in.program && (len(s.operands) > 0 && !file || s.unsure) {
		return name + " inline program", true
	}
	return "", false
}

// HarmlessText reports whether the code in the arguments of awk or sed is so plain
// that it can run no program and use no other file. It accepts only a few forms.
func HarmlessText(argv []Word) bool {
	in, ok := named(interpreters(), NormalizeName(argv[0].Text))
	if !ok || !in.program {
		return false
	}
	s := in.grammar.read(argv)
	if s.stopped != "" {
		return false
	}
	harmless := "F v"
	if in.permute { // sed
		harmless = "n E s u z"
	}
	var texts []Word
	for _, o := range s.options {
		switch {
		case in.permute && o.name == "e":
			texts = append(texts, o.value)
		case !HasField(harmless, o.name):
			return false
		}
	}
	for _, i := range s.operands {
		if in.permute && argv[i].MayBeOption() {
			return false // sed takes options behind its operands
		}
	}
	if len(texts) == 0 && len(s.operands) > 0 {
		texts = append(texts, argv[s.operands[0]])
	}
	if len(texts) == 0 || slices.ContainsFunc(texts, func(w Word) bool { return !w.Static }) {
		return false
	}
	if in.permute { // each of its texts is whole, so that no two make another one
		return !slices.ContainsFunc(texts, func(w Word) bool { return !plainSed().MatchString(w.Text) })
	}
	text := texts[0].Text
	// Without these there are no calls, pipes, redirections and extensions.
	return !strings.ContainsAny(text, "(|>@") && !strings.Contains(text, "getline")
}

// plainSed matches a list of p, d, q, = and s///, with addresses. Brackets of regular
// expressions do not match, since programs differ in whether a slash in them ends it.
var plainSed = sync.OnceValue(func() *regexp.Regexp {
	const (
		re      = `/(?:\\[^\n]|[^/\\\[\n])*`
		address = `(?:[0-9]+|\$|` + re + `/)`
		command = `(?:` + address + `(?:,` + address + `)?)? ?(?:[pdq=]|s` + re + re + `/[gpiI0-9]*)`
	)
	return regexp.MustCompile(`^` + command + `(?: ?; ?` + command + `)*$`)
})
