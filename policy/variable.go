package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/programs"
)

// steering are the variables that tell a shell where programs are or what to run
// first, and the loader what to load. Other variables can have a program run only
// what is in their values, and rules look for it there.
var steering = lazy.Regexp(`^(PATH|ENV|BASH_.+|ZDOTDIR|FPATH|IFS|PS4|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|CDPATH|EXECIGNORE|LD_.+|DYLD_.+|GCONV_PATH|GLIBC_TUNABLES)$`)

// steers reports whether setting the variable may change which programs run.
func steers(name string) bool {
	name, _, _ = strings.Cut(name, "[")
	return steering().MatchString(name) || strings.ContainsAny(name, "%(")
}

// numbers are the variables in which a shell itself keeps numbers.
var numbers = strings.Fields("? # $ ! COPROC RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS UID EUID PPID COLUMNS LINES OPTIND BASHPID SHLVL")

// assigned are the names of the variables that the text itself sets.
func assigned(file *syntax.File) []string {
	var names []string
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				names = append(names, n.Name.Value)
			}
		case *syntax.WordIter:
			names = append(names, n.Name.Value)
		case *syntax.BinaryArithm:
			if strings.HasSuffix(n.Op.String(), "=") {
				if w, ok := n.X.(*syntax.Word); ok {
					names = append(names, w.Lit())
				}
			}
		case *syntax.CallExpr:
			if len(n.Args) > 1 && n.Args[0].Lit() == "read" {
				for _, w := range n.Args[1:] {
					names = append(names, w.Lit())
				}
			}
		}
		return true
	})
	return names
}

// foreign reports whether arithmetic looks at a variable that the text does not
// set. Its value is then evaluated too, and can be a command that is not in the text.
func (s *script) foreign(x syntax.Node) bool {
	found := false
	syntax.Walk(x, func(n syntax.Node) bool {
		name := ""
		switch n := n.(type) {
		case *syntax.Lit:
			name = n.Value
			if strings.Trim(name, "0123456789") == "" || !syntax.ValidName(name) {
				return true
			}
		case *syntax.ParamExp:
			if n.Param == nil {
				return true
			}
			if n.Length {
				return false // a number
			}
			name = n.Param.Value
		default:
			return true
		}
		if s.sets == nil {
			s.sets = append(assigned(s.file), "")
		}
		found = found || !slices.Contains(numbers, name) && !slices.Contains(s.sets, name)
		return true
	})
	return found
}

// setsNamed says how a builtin sets a variable that steers or is not known, or
// evaluates one in a way that runs code; empty if it does not.
func setsNamed(words []Word) string {
	name := words[0].Text
	names := words[1:]
	switch name {
	case "printf", "test", "[":
		names = nil
		for i, w := range words[1:] {
			switch {
			case !w.Static || !strings.HasPrefix(w.Text, "-v") && w.Text != "-R":
			case len(w.Text) > 2 && name == "printf":
				names = append(names, programs.Literal(w.Text[2:]))
			case i+2 < len(words):
				names = append(names, words[i+2])
			}
			if name == "printf" {
				break // it is an option only there
			}
		}
	case "read", "unset", "getopts", "wait", "mapfile", "readarray", "export", "readonly", "declare", "local", "typeset":
	default:
		return ""
	}
	for _, w := range names {
		variable, _, _ := strings.Cut(w.Prefix, "=")
		switch {
		case !w.Static && !strings.Contains(w.Prefix, "="):
			if name == "read" || name == "printf" || name == "test" || name == "[" || name == "unset" || name == "getopts" {
				return name + " is given a variable that is not known, and runs what is in its subscript"
			}
			return name + " is given a variable that is not known: " + programs.Quote(w.Text)
		case steers(variable) && name != "test" && name != "[":
			return name + " changes " + variable + ", and with it which programs run"
		}
	}
	return ""
}
