package programs

import (
	"slices"
	"strings"
)

// shellForms has, for each shell, the function that reads its options. The families of
// shells differ in which values may be attached to which options.
var shellForms = map[string]func(name string, argv []Word) Layer{
	"ash": peelPOSIX, "bash": peelPOSIX, "dash": peelPOSIX, "ksh": peelPOSIX, "mksh": peelPOSIX, "oksh": peelPOSIX,
	"loksh": peelPOSIX, "pdksh": peelPOSIX, "posh": peelPOSIX, "rbash": peelPOSIX, "rksh": peelPOSIX, "sh": peelPOSIX,
	"yash": peelPOSIX, "zsh": peelPOSIX, "rzsh": peelPOSIX, "hush": peelPOSIX,
	"csh": peelPOSIX, "tcsh": peelPOSIX,
	"fish": peelFish, "elvish": peelFish, "nu": peelFish, "xonsh": peelFish,
	"cmd": peelCmd, "powershell": peelPowerShell, "pwsh": peelPowerShell,
}

// IsShell reports whether name, or a path that ends in it, is that of a shell.
func IsShell(name string) bool { return shellForms[NormalizeName(name)] != nil }

func peelShell(name string, argv []Word) Layer {
	return shellForms[name](name, argv)
}

// shellRefused is the layer of a shell whose text is not known.
func shellRefused(name, reason string) Layer {
	return Layer{Kind: LayerRefused, Name: name, Own: true, Reason: name + " " + reason}
}

// shellUse is the meaning of the options of a shell of the POSIX family.
type shellUse struct {
	c       bool   // text follows
	stdin   bool   // -s
	only    bool   // --version and the like
	first   int    // index of the first operand
	refused string // why the options cannot be read
}

// posixFlags are the shells' long options without a value; they may have one dash too.
var posixFlags = strings.Fields("debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print protected restricted verbose version wordexp emulate-sh")

// shellSettings are the values of -o and -O with which a shell reads its text as without
// them. With others, words are variables of a program (keyword) or comments are words.
const shellSettings = `errexit nounset pipefail xtrace verbose noglob noclobber noexec monitor notify posix
	extglob globstar nullglob dotglob failglob nocaseglob lastpipe inherit_errexit`

// readShell reads the options of a shell of the POSIX family. Letters may be in clusters;
// -o and -O have their values in the next words, also from the middle of a cluster.
func readShell(argv []Word) shellUse {
	var u shellUse
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		u.first = i
		switch {
		case w.MayBeOption() && !w.Static:
			u.refused = "gets a word that is not known: " + Quote(w.Text)
			return u
		case !w.Static:
			return u
		}
		text := w.Text
		switch {
		case text == "-" || text == "--":
			u.first = i + 1
			return u
		case len(text) < 2 || text[0] != '-' && text[0] != '+':
			return u
		}
		long := strings.TrimLeft(text[:2], "-") + text[2:]
		if text[0] == '-' && slices.Contains(posixFlags, long) {
			u.only = u.only || long == "version" || long == "help"
			continue
		}
		switch name, _, _ := strings.Cut(long, "="); name {
		case "rcfile", "init-file", "startup-file":
			u.refused = "reads another file first (" + text + ")"
			return u
		}
		if strings.HasPrefix(text, "--") {
			u.refused = "has an option that is not known: " + Quote(text)
			return u
		}
		values := 0
		for _, c := range text[1:] {
			switch {
			case text[0] == '-' && c == 'c':
				u.c = true
			case text[0] == '-' && c == 's':
				u.stdin = true
			case c == 'o' || c == 'O':
				values++
			case c == 'k' || c == 'i' && strings.HasSuffix(NormalizeName(argv[0].Text), "zsh"):
				u.refused = "takes words for variables, or comments for words, with " + Quote(text)
				return u
			case c == 'A' || c == 'T' || c == 'R' || !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'):
				u.refused = "has an option that is not known: " + Quote(text)
				return u
			}
		}
		if values > 0 && !strings.ContainsAny(text[len(text)-1:], "oO") {
			// For -oc, bash takes the value from the next word and zsh from this one.
			if strings.ContainsRune(text, 'c') {
				u.refused = "has an option that shells read differently: " + Quote(text)
				return u
			}
		}
		for ; values > 0 && i+1 < len(argv); values-- {
			i++
			switch w := argv[i]; {
			case !w.Static:
				u.refused = "gets a word that is not known: " + Quote(w.Text)
				return u
			case !HasField(shellSettings, w.Text):
				u.refused = "may read its text in another way with " + Quote(w.Text)
				return u
			}
		}
		u.first = i + 1
	}
	u.first = len(argv)
	return u
}

func peelPOSIX(name string, argv []Word) Layer {
	u := readShell(argv)
	switch {
	case u.refused != "":
		l := shellRefused(name, u.refused)
		// A guess for the deny rules: this may be the text.
		for _, w := range argv[1:] {
			if w.Static && strings.Contains(w.Text, " ") {
				l.Text, l.Shell = w, name
				break
			}
		}
		return l
	case u.only:
		return Layer{Name: name}
	case u.c && u.first >= len(argv):
		return shellRefused(name, "-c has no text")
	case u.c:
		return Layer{Name: name, Shell: name}.reads(name, argv[u.first], argv[u.first+1:])
	case u.stdin:
		return shellRefused(name, "-s reads commands from its standard input")
	case u.first >= len(argv):
		return shellRefused(name, "without a script reads commands from its standard input")
	}
	return Layer{Name: name} // a script
}

var fishGrammar = newGrammar("c,commands,command: i,interactive l,login n,no-execute N,no-config norc h,help v,version P,private stdin")

// peelFish: fish, elvish, nu and xonsh read options as GNU programs do.
func peelFish(name string, argv []Word) Layer {
	s := fishGrammar.read(argv)
	if s.stopped != "" {
		return shellRefused(name, ": "+s.stopped)
	}
	text, ok := s.find("c")
	if _, only := s.find("h", "v"); only {
		return Layer{Name: name}
	}
	at := s.first(argv)
	switch {
	case ok && name == "elvish": // its -c has no value
		return shellRefused(name, "-c reads a language that is not looked at")
	case ok:
		count := 0
		for _, o := range s.options {
			if o.name == "c" {
				count++
			}
		}
		if count > 1 {
			return shellRefused(name, "reads several texts")
		}
		return Layer{Name: name}.reads(name, text.value, argv[at:])
	case at == len(argv):
		return shellRefused(name, "without a script reads commands from its standard input")
	}
	return Layer{Name: name}
}

// peelCmd: everything behind /c or /k is text.
func peelCmd(name string, argv []Word) Layer {
	for i, w := range argv[1:] {
		if !w.Static {
			return shellRefused(name, "gets a word that is not known: "+Quote(w.Text))
		}
		flag := strings.ToLower(w.Text)
		if !strings.HasPrefix(flag, "/") {
			return shellRefused(name, "without /c reads commands from its standard input")
		}
		if flag == "/c" || flag == "/k" || flag == "/r" {
			if i+2 == len(argv) {
				return shellRefused(name, w.Text+" has no text")
			}
			return Layer{Name: name}.reads(name, joined(argv[i+2:]), nil)
		}
		if k := strings.IndexAny(flag, "ckr"); k > 0 && flag[k-1] == '/' { // /cdir, /s/c
			rest := Literal(w.Text[k+1:])
			return Layer{Name: name}.reads(name, joined(slices.Concat([]Word{rest}, argv[i+2:])), nil)
		}
	}
	return shellRefused(name, "without /c reads commands from its standard input")
}

// peelPowerShell: options have one dash, any case, and may be abbreviated.
func peelPowerShell(name string, argv []Word) Layer {
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		if !w.Static {
			return shellRefused(name, "gets a word that is not known: "+Quote(w.Text))
		}
		flag := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(strings.Replace(w.Text, "/", "-", 1), "-"), "-"))
		option := strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "/") && name == "powershell"
		rest := argv[min(i+1, len(argv)):]
		is := func(long string, least int) bool {
			return len(flag) >= least && strings.HasPrefix(long, flag)
		}
		switch {
		case !option && name == "pwsh":
			return Layer{Name: name} // a file
		case !option:
			return Layer{Name: name}.reads(name, joined(argv[i:]), nil)
		case is("command", 1) || is("commandwithargs", 8) || flag == "cwa":
			if len(rest) == 0 || rest[0].Text == "-" {
				return shellRefused(name, "reads commands from its standard input")
			}
			return Layer{Name: name}.reads(name, joined(rest), nil)
		case is("encodedcommand", 1) || flag == "ec":
			l := shellRefused(name, "-EncodedCommand hides what it runs")
			if len(rest) > 0 {
				l.Text, l.Shell = rest[0], name
			}
			return l
		case is("file", 1):
			return Layer{Name: name}
		case is("noprofile", 3) || is("nologo", 3) || is("noninteractive", 4) || is("sta", 2) || is("mta", 2) || is("login", 1):
		case is("executionpolicy", 2) || flag == "ep" || is("outputformat", 1) || flag == "of" || is("inputformat", 3) || flag == "if" || is("windowstyle", 1):
			i++
		case is("version", 1) || is("help", 1) || flag == "?":
			return Layer{Name: name}
		default:
			return shellRefused(name, "has an option that is not known: "+Quote(w.Text))
		}
	}
	return shellRefused(name, "without a command reads commands from its standard input")
}
