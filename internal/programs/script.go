package programs

import (
	"path"
	"slices"
	"strings"
)

// CodeGiven is the reason for no script if all code is in the words.
const CodeGiven = " runs the code that it is given"

// FromInput is the reason for no script if the code comes from standard input.
const FromInput = " reads code from its standard input"

// ScriptOperand is the index of the word that names the file of code that the program
// runs: x.sh in bash -e x.sh 2, ./x.ts in npx tsx ./x.ts. It is -1 if there is no such
// file and only the program runs; why is then empty. It is also -1 if the file is not
// known or is not all the code: why then says so.
func ScriptOperand(argv []Word) (at int, why string) {
	if len(argv) == 0 || !argv[0].Static {
		return -1, ""
	}
	name := NormalizeName(argv[0].Text)
	switch name {
	case ".", "source":
		return sourced(argv)
	case "npx", "bunx", "npm", "pnpm", "yarn", "bun", "uv", "pipx":
		if at, why, ok := runnerOperand(name, argv); ok {
			return at, why
		}
	}
	if form := shellForms[name]; form != nil {
		return shellOperand(name, argv)
	}
	in, ok := named(interpreters(), name)
	if !ok {
		return -1, ""
	}
	if name == "bun" || name == "deno" {
		return runOperand(name, in, argv)
	}
	return in.operand(name, argv)
}

// operand is the script of an interpreter that takes it as its first operand.
func (in *interpreter) operand(name string, argv []Word) (int, string) {
	s := in.grammar.read(argv)
	if in.permute && s.stopped == "" { // sed: options behind operands
		if more := in.grammar.search(argv, true); len(more.options) != len(s.options) {
			return -1, name + " has options behind its operands"
		}
	}
	var files []given
	for _, o := range s.options {
		switch {
		case HasField(in.code, o.name):
			return -1, name + " " + o.text + CodeGiven
		case HasField(in.loads, o.name):
			return -1, name + " " + o.text + " loads further code"
		case HasField(in.module, o.name):
			return -1, name + " " + o.text + " runs code that no file is named of"
		case HasField(in.idle, o.name):
			return -1, ""
		case HasField(in.file, o.name):
			files = append(files, o)
		}
	}
	switch {
	case s.stopped != "":
		return -1, name + ": " + s.stopped
	case len(files) > 1:
		return -1, name + " runs several files"
	case len(files) == 1 && files[0].last == files[0].at:
		return -1, name + " " + files[0].text + " has the file in the same word"
	case len(files) == 1:
		return bindable(name, argv, files[0].last)
	case in.program:
		if len(s.operands) == 0 {
			return -1, ""
		}
		return -1, name + CodeGiven
	case name == "make" || name == "gmake" || name == "bmake":
		return -1, name + " runs what the makefile says"
	case len(s.operands) == 0:
		return -1, name + FromInput
	}
	return bindable(name, argv, s.operands[0])
}

// bindable returns the word as a script, unless it is not certain which file it names.
func bindable(name string, argv []Word, at int) (int, string) {
	w := argv[at]
	switch {
	case !w.Static:
		return -1, "which file " + name + " runs is not known: " + Quote(w.Text)
	case w.Text == "-" || w.Text == "/dev/stdin" || strings.HasPrefix(w.Text, "/dev/fd/") || strings.HasPrefix(w.Text, "/proc/self/fd/"):
		return -1, name + FromInput
	case w.Text == "":
		return -1, name + " has an empty name for a file"
	case (name == "node" || name == "tsx") && slices.Contains([]string{"inspect", "watch", "repl"}, w.Text):
		return -1, name + " " + w.Text + " is a command of its own"
	}
	return at, ""
}

// sourced is the file of "." or source. A name without a slash is looked up on PATH.
func sourced(argv []Word) (int, string) {
	at := 1
	if len(argv) > 2 && argv[1].Static && argv[1].Text == "--" {
		at = 2
	}
	if len(argv) <= at {
		return -1, ""
	}
	if w := argv[at]; !w.Static || !strings.Contains(w.Text, "/") {
		return -1, argv[0].Text + " looks for " + Quote(w.Text) + " on PATH"
	}
	return bindable(argv[0].Text, argv, at)
}

// shellOperand is the script of a shell. Text for a shell is handled by Peel.
func shellOperand(name string, argv []Word) (int, string) {
	switch l := Peel(argv); {
	case l.Kind == LayerText:
		return -1, ""
	case l.Kind == LayerRefused:
		return -1, l.Reason
	case name == "cmd" || name == "powershell" || name == "pwsh":
		return -1, "which file " + name + " runs is not looked at"
	}
	at := 0
	if name == "fish" || name == "elvish" || name == "nu" || name == "xonsh" {
		at = fishGrammar.read(argv).first(argv)
	} else if u := readShell(argv); u.only {
		return -1, ""
	} else {
		at = u.first
	}
	if at >= len(argv) {
		return -1, name + FromInput
	}
	return bindable(name, argv, at)
}

// runnerOperand is the script of a program that npx and the like run from a package; ok
// is false if this is another use. A program that is no interpreter has no script.
func runnerOperand(name string, argv []Word) (at int, why string, ok bool) {
	if name == "pnpm" {
		s := pnpmGrammar.read(argv)
		if s.stopped != "" {
			return -1, name + ": " + s.stopped, true
		}
		sub := s.first(argv)
		if sub == len(argv) {
			return -1, "", true
		}
		switch argv[sub].Text {
		case "node":
			return offset(sub, argv[sub:])
		case "exec", "dlx":
			argv = slices.Concat(argv[:1], argv[sub:])
			at, why, ok = runnerOf(argv)
			if at >= 0 {
				at += sub - 1
			}
			return at, why, ok
		case "run", "run-script", "start", "test":
			return -1, name + " " + argv[sub].Text + " runs a script of the package", true
		}
		return -1, "", true
	}
	return runnerOf(argv)
}

func runnerOf(argv []Word) (int, string, bool) {
	l := Peel(argv)
	switch {
	case l.Kind == LayerNone:
		return -1, "", false
	case l.Text.Text != "":
		return -1, l.Name + " has a shell read text", true
	case len(l.Inner) == 0:
		return -1, l.Reason, true
	}
	return offset(len(argv)-len(l.Inner), l.Inner)
}

// offset is the script in words, which begin at index n of the command.
func offset(n int, words []Word) (int, string, bool) {
	at, why := ScriptOperand(words)
	if at >= 0 {
		at += n
	}
	return at, why, true
}

var pnpmGrammar = newGrammar("r,recursive s,silent C,dir: F,filter: w,workspace-root color no-color stream aggregate-output reporter: loglevel: v,version h,help")

// runOperand is the script of bun or deno, which run a file with or without "run". Other
// words are subcommands, or scripts of the package.
func runOperand(name string, in *interpreter, argv []Word) (int, string) {
	s := in.grammar.read(argv)
	at := s.first(argv)
	if s.stopped != "" || at == len(argv) || !argv[at].Static {
		return in.operand(name, argv)
	}
	switch sub := argv[at].Text; {
	case sub == "run":
		rest := slices.Concat(argv[:at], argv[at+1:]) // options may stand on both sides
		i, why := in.operand(name+" run", rest)
		if i < 0 {
			return i, why
		}
		if name == "bun" && !codeFile(rest[i].Text) {
			return -1, "bun run " + rest[i].Text + " runs a script of the package"
		}
		return i + 1, ""
	case codeFile(sub):
		return in.operand(name, argv)
	case slices.Contains(idleSubcommands, sub):
		return -1, ""
	default:
		return -1, name + " " + sub + " runs code that no file is named of"
	}
}

var idleSubcommands = strings.Fields("install i add a remove rm update outdated link unlink pm audit why upgrade info fmt lint check cache doc types completions clean")

// codeFile reports whether a word names a file and no subcommand.
func codeFile(text string) bool {
	switch path.Ext(text) {
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return true
	}
	return strings.Contains(text, "/")
}
