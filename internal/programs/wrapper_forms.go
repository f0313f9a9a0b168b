package programs

import (
	"slices"
	"strings"
)

// xargsForm: xargs adds words from standard input to the command, at the end or in place
// of a mark. They are not known.
func xargsForm(argv []Word, s scan, l Layer) Layer {
	at := s.first(argv)
	if at == len(argv) {
		return l.runs([]Word{Literal("echo"), {Text: "…"}}) // the echo on PATH
	}
	mark := ""
	adds := false // whether it may add words at the end although there is a mark
	for _, o := range s.options {
		switch o.name {
		case "L", "l", "n": // GNU xargs forgets the mark then
			adds = true
		case "I", "J":
			mark = o.value.Text
			adds = adds || o.name == "J" // BSD's xargs does if no word is the mark
		case "i":
			if mark = o.value.Text; mark == "" {
				mark = "{}"
			}
		case "process-slot-var": // it can set BASH_ENV=0, which makes bash read the file ./0
			l.Vars = append(l.Vars, o.value.Text)
		}
	}
	inner := replaced(argv[at:], mark)
	if mark == "" || adds {
		inner = append(inner, Word{Text: "…"})
	}
	if !inner[0].Static {
		return l.refuse(l.Name+" takes the program itself from its input", inner)
	}
	return l.runs(inner)
}

// replaced are words with an unknown text in place of the mark.
func replaced(words []Word, mark string) []Word {
	words = slices.Clone(words)
	if mark == "" {
		return words
	}
	for i, w := range words {
		if strings.Contains(w.Text, mark) {
			words[i].Static, words[i].Prefix = false, ""
		}
	}
	return words
}

// findForm: find runs the command between -exec and ; or +. An unknown word may be -exec
// or the end of the command.
func findForm(argv []Word, _ scan, l Layer) Layer {
	var commands [][]Word
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		if !w.Static && w.MayBeOption() {
			return l.refuse(l.Name+": what "+Quote(w.Text)+" stands for is not known", argv[i:])
		}
		if !w.Static || !findRuns[w.Text] {
			continue
		}
		l.Moves = l.Moves || strings.HasSuffix(w.Text, "dir")
		start := i + 1
		for i = start; i < len(argv); i++ {
			w := argv[i]
			if !w.Static && w.MayBeOption() { // it may be the end and the next -exec
				return l.refuse(l.Name+": what "+Quote(w.Text)+" stands for is not known", argv[start:])
			}
			if w.Static && findRuns[w.Text] { // one of the two is the argument of a test
				return l.refuse(l.Name+" runs what cannot be told", argv[start:], argv[i+1:])
			}
			if w.Text == ";" || w.Text == "+" && argv[i-1].Text == "{}" {
				break
			}
		}
		if i > start {
			commands = append(commands, replaced(argv[start:min(i, len(argv))], "{}"))
		}
	}
	if len(commands) == 0 {
		return Layer{Name: l.Name}
	}
	for _, c := range commands {
		if !c[0].Static || strings.HasPrefix(c[0].Text, "-") {
			l = l.refuse(l.Name + " runs what it finds")
		}
	}
	l.Inner, l.More = commands[0], commands[1:]
	return l
}

var findRuns = map[string]bool{"-exec": true, "-execdir": true, "-ok": true, "-okdir": true}

func archForm(argv []Word, s scan, l Layer) Layer {
	at := s.first(argv)
	if at == len(argv) {
		return Layer{Name: l.Name}
	}
	for _, o := range s.options {
		if o.name == "arch" && !slices.Contains([]string{"arm64", "arm64e", "i386", "x86_64", "x86_64h"}, o.value.Text) {
			return l.refuse(l.Name+": architecture "+Quote(o.value.Text)+" is not known", argv[at:])
		}
	}
	if !argv[at].Static {
		return l.refuse(l.Name+": what "+Quote(argv[at].Text)+" stands for is not known", argv[at:])
	}
	return l.runs(argv[at:])
}

// setarchForm: the architecture may be left out.
func setarchForm(argv []Word, s scan, l Layer) Layer {
	at := s.first(argv)
	if l.Name != "setarch" || at > 1 || at == len(argv) {
		return (&wrapper{alone: "runs a shell"}).run(argv[at:], l)
	}
	// The options stand behind the architecture.
	w := *wrappers()["setarch"]
	w.form = nil
	w.alone = "runs a shell"
	return w.peel(l.Name, argv[at:])
}

// flockForm: -c comes behind the file.
func flockForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) < 2 {
		return Layer{Name: l.Name} // it locks a file descriptor
	}
	if !words[0].Static || !words[1].Static {
		return l.refuse(l.Name+": what its words stand for is not known", words)
	}
	if t := words[1].Text; t == "-c" || len(t) > 2 && strings.HasPrefix("--command", t) {
		if len(words) != 3 {
			return l.refuse(l.Name+" "+t+" takes one text", words[2:])
		}
		return l.reads("sh", words[2], nil)
	}
	return l.runs(words[1:])
}

func watchForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) == 0 {
		return Layer{Name: l.Name}
	}
	if _, ok := s.find("x"); ok {
		return l.runs(words)
	}
	return l.reads("sh", joined(words), nil)
}

func evalForm(argv []Word, _ scan, l Layer) Layer {
	words := argv[1:]
	if len(words) > 0 && words[0].Static && words[0].Text == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return Layer{Name: l.Name}
	}
	return l.reads("", joined(words), nil)
}

// trapForm: one word alone is a signal, whose handler is reset.
func trapForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) < 2 || words[0].Static && (words[0].Text == "-" || words[0].Text == "" || digits(words[0].Text)) {
		return Layer{Name: l.Name}
	}
	return l.reads("", words[0], nil)
}

// multiplexerForm: only shells are peeled, since the other applets are not the programs of
// the same name.
func multiplexerForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) == 0 {
		return Layer{Name: l.Name}
	}
	l.Inner = slices.Clip(words)
	if words[0].Static && IsShell(words[0].Text) {
		l.Kind, l.Reason = layerArgv, ""
	}
	return l
}

// envWordsForm: sudo takes assignments too.
func envWordsForm(argv []Word, s scan, l Layer) Layer {
	at := s.first(argv)
	if _, ok := s.find("e"); ok {
		return l.refuse(l.Name + " -e edits files as another user")
	}
	if _, ok := s.find("l", "v", "V", "K"); ok && at == len(argv) {
		return l.refuse(l.Name + " asks about another user's rights")
	}
	for ; at < len(argv); at++ {
		name, _, ok := strings.Cut(argv[at].Prefix, "=")
		if !ok {
			break
		}
		l.Vars = append(l.Vars, name)
	}
	if at == len(argv) {
		return l.refuse(l.Name + " without a command opens a shell as another user")
	}
	return l.runs(argv[at:])
}

// suForm: options may come behind the user, and the words behind them go to the user's
// shell.
func suForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if _, ok := s.find("u"); ok && len(words) > 0 {
		return l.runs(words)
	}
	if len(words) > 0 { // the user, or -
		rest := argv[len(argv)-len(words):]
		if words[0].Text == "-" && len(words) > 1 && !strings.HasPrefix(words[1].Text, "-") {
			rest = rest[1:]
		}
		if more := wrappers()["su"].grammar.read(rest); more.stopped == "" {
			s.options = append(s.options, more.options...)
			words = rest[more.first(rest):]
		}
	}
	if c, ok := s.find("c", "session-command"); ok {
		return l.reads("sh", c.value, words)
	}
	return l.refuse(l.Name+" opens a shell as another user", words)
}

// daemonForm: start-stop-daemon names the program by an option.
func daemonForm(argv []Word, s scan, l Layer) Layer {
	rest := argv[s.first(argv):]
	if o, ok := s.find("a", "x"); ok {
		return l.runs(slices.Concat([]Word{o.value}, rest))
	}
	return l
}

// packageForm: npx -c runs a shell with text.
func packageForm(argv []Word, s scan, l Layer) Layer {
	if c, ok := s.find("c"); ok {
		return l.reads("sh", c.value, nil)
	}
	if at := s.first(argv); at < len(argv) {
		return l.runs(argv[at:])
	}
	return l
}

// runTextForm: nix-shell.
func runTextForm(_ []Word, s scan, l Layer) Layer {
	if o, ok := s.find("run", "command"); ok {
		return l.reads("sh", o.value, nil)
	}
	return l
}

// netnsForm: argv[0] is netns. Every abbreviation of exec is accepted.
func netnsForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) < 3 || words[0].Static && !strings.HasPrefix("exec", words[0].Text) {
		return Layer{Name: l.Name}
	}
	return l.runs(words[2:])
}

// parallelForm: it joins its words to text for a shell.
func parallelForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) == 0 {
		return l.refuse(l.Name + " reads commands from its input")
	}
	for i, w := range words {
		if w.Static && strings.HasPrefix(w.Text, ":::") {
			words = words[:i]
			break
		}
	}
	if len(words) == 0 {
		return l.refuse(l.Name+" runs what it is given", argv[s.first(argv)+1:])
	}
	return l.reads("sh", joined(replaced(words, "{")), nil)
}

// sshForm: the host, and then text for a shell on that host.
func sshForm(argv []Word, s scan, l Layer) Layer {
	words := argv[s.first(argv):]
	if len(words) == 0 {
		return Layer{Name: l.Name}
	}
	rest := argv[len(argv)-len(words):]
	more := wrappers()["ssh"].grammar.read(rest) // options may come behind the host
	if more.stopped != "" {
		return l.refuse(l.Name+": "+more.stopped, rest[more.at:])
	}
	if words = rest[more.first(rest):]; len(words) > 0 {
		return l.reads("sh", joined(words), nil)
	}
	return l
}

// scriptForm: on its terminal it runs a shell, text, or the words behind the file.
func scriptForm(argv []Word, s scan, l Layer) Layer {
	if c, ok := s.find("c"); ok {
		return l.reads("sh", c.value, nil)
	}
	if words := argv[s.first(argv):]; len(words) > 1 {
		return l.runs(words[1:])
	}
	return l.refuse(l.Name + " without a command runs a shell")
}
