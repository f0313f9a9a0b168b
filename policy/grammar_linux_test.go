package policy_test

import (
	"math/rand/v2"
	"strings"
)

// A grammar makes shell commands. They are harmless: the programs are those of
// newSandbox, and the forbidden ones do nothing.
type grammar struct {
	*rand.Rand
	wild   float64 // how often it does what the policy should refuse
	budget int     // how many more commands it may make
}

// generate makes the command of a seed. An allowlist could allow half of them; the
// others have something in them that it should refuse.
func generate(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 0))
	g := &grammar{Rand: r, budget: 1 + r.IntN(6), wild: []float64{0, 0, 0.02, 0.1, 0.4}[r.IntN(5)]}
	text := g.script()
	if g.sometimes(g.wild) {
		text = g.damage(text)
	}
	return text
}

func (g *grammar) sometimes(p float64) bool { return g.Float64() < p }

func (g *grammar) wildly() bool { return g.sometimes(g.wild) }

func (g *grammar) of(list ...string) string { return list[g.IntN(len(list))] }

// rule applies one of the productions.
func (g *grammar) rule(list ...func() string) string { return list[g.IntN(len(list))]() }

// some repeats a production.
func (g *grammar) some(least, most int, separator string, production func() string) string {
	var parts []string
	for range least + g.IntN(most-least+1) {
		parts = append(parts, production())
	}
	return strings.Join(parts, separator)
}

// damage adds or removes something at random places.
func (g *grammar) damage(text string) string {
	for range 1 + g.IntN(3) {
		at := g.IntN(len(text) + 1)
		end := min(at+g.IntN(3), len(text))
		text = text[:at] + g.of("'", `"`, `\`, "\n", "\\\n", "$", "`", "(", ")", "{", "}", "#", " #", ";", "&", "|", "<", ">", "\r", " ", "\t",
			"!", "~", "*", "[", "]", "@", "=", "evil", ";evil", "$(evil)", "\u00a0", "", "") + text[end:]
	}
	return text
}

func (g *grammar) script() string {
	text := g.item()
	for g.budget > 0 && g.sometimes(0.4) {
		text += g.of("; ", " && ", " || ", "\n", " ;\n ", " &&\n", "\n# evil; $(evil)\n", " # it's\n", " && # evil\n\t", " \\\n && ", "\n\n\n", " # a\n# b\n\n# c\n") + g.item()
	}
	switch {
	case g.sometimes(0.05):
		text += g.of(";", "\n", " # evil", " #", "\n\n", " ; # \\")
	case g.sometimes(0.02):
		text += " &"
	}
	return text
}

func (g *grammar) item() string {
	if g.wildly() {
		return g.compound()
	}
	switch {
	case g.sometimes(0.06):
		return g.hereDocument()
	case g.sometimes(0.03):
		return "! " + g.pipeline()
	case g.sometimes(0.08):
		return g.of("cd sub", "cd .", "cd sub/..", "true", "false", ":", "cd sub/.", ": a b", "cd 'sub'", `cd "$HOME"`)
	}
	return g.pipeline()
}

func (g *grammar) pipeline() string {
	text := g.command()
	for g.budget > 0 && g.sometimes(0.3) {
		text += g.of(" | ", "|", " |\n ", " 2>&1 | ", " | # it's\n", " \\\n\t| ") + g.command()
	}
	if g.wildly() {
		text += g.of(" |& ", " & ", "&", " | ") + g.command()
	}
	return text
}

// compound is syntax that only wild commands have.
func (g *grammar) compound() string {
	if g.budget <= 0 {
		return g.simple()
	}
	s := g.script
	return g.rule(
		func() string { return "(" + s() + ")" },
		func() string { return "{ " + s() + "; }" },
		func() string { return "if " + s() + "; then " + s() + "; fi" },
		func() string { return "for x in " + g.words() + "; do " + g.of("$x", "echo $x", "evil") + "; done" },
		func() string { return "while read x; do " + s() + "; done <f" },
		func() string { return "case " + g.word() + " in " + g.word() + ") " + s() + ";; *) " + s() + ";; esac" },
		func() string { return g.of("ls", "echo", "fn") + "() { " + s() + "; }; " + s() },
		func() string { return "[[ " + g.word() + g.of(" = ", " -eq ", " =~ ") + g.word() + " ]]" },
		func() string { return "((" + g.of("1", "INDEX", "a[$(evil)]", "x=1") + ")) && " + s() },
		func() string { return "time " + s() },
		func() string { return "coproc " + s() + "; wait" },
		func() string { return "trap " + g.quoted(s()) + " EXIT; " + s() },
		func() string { return "eval " + g.quoted(s()) },
		func() string { return "alias ls=evil\nls; " + s() },
		func() string { return "shopt -s expand_aliases\nalias one=evil\none" },
		func() string { return "set -- " + g.words() + "; \"$@\"" },
		func() string { return "x=" + g.word() + "; $x; " + s() },
		func() string { return g.of("printf", "read", "test") + " -v 'a[$(evil)]' x" },
		func() string { return "mapfile -C evil -c 1 <f; " + s() },
		func() string { return g.of("source", ".") + " ./script" },
		func() string { return "hash -p sub/ls ls; " + s() },
		func() string { return "PS4='$(evil)'; set -x; " + s() },
		func() string { return "PATH=sub; " + s() },
		func() string { return "cd sub && ./ls" },
		func() string { return g.command() + " & " + s() + "; wait" },
		func() string { return "exec " + g.command() },
	)
}

func (g *grammar) command() string {
	g.budget--
	text := g.plainCommand()
	if g.wildly() {
		text = g.of("X=1 ", "PATH=sub ", "PATH=sub:$PATH ", "BASH_ENV=script ", "IFS=v ", "X=$(evil) ", "LC_ALL=C ") + text
	}
	if g.sometimes(0.15) {
		redirection := g.of("2>/dev/null", ">/dev/null", "2>&1", "</dev/null", ">&2", "&>/dev/null", "<<<a", "<<<\"$SPACE\"", "2>&-")
		if g.wildly() {
			redirection = g.of(">&f", "<f", "<script", "<<<$(evil)", "<>f", ">/dev/full", "> >(evil)", "<(evil)", "{x}>/dev/null", "3>&1", "<&0")
		}
		if g.sometimes(0.2) {
			return redirection + " " + text
		}
		text += " " + redirection
	}
	return text
}

func (g *grammar) plainCommand() string {
	switch {
	case g.budget > 0 && g.sometimes(0.2):
		return g.wrapper() + " " + g.plainCommand()
	case g.budget > 0 && g.sometimes(0.1):
		return g.shell()
	case g.wildly():
		return g.carrier()
	}
	return g.simple()
}

func (g *grammar) wrapper() string {
	if !g.wildly() {
		return g.spelled(g.of("env", "env --", "nice", "nice -n 5", "nohup", "timeout 5", "timeout -s KILL 5", "stdbuf -oL", "nice -n1 env", "timeout -k 1 5"))
	}
	return g.of("env X=1", "env -i", "env -u X", "env PATH=sub", "env -S", "env -C sub", "env $EMPTY", "nice $OPT 5", "nice $EMPTY", "timeout $FIVE",
		"command", "command -p", "exec", "exec -a x", "builtin", "eval", "setsid", "busybox", "busybox env", "xargs", "xargs -I{}", "! ", "time", "time -p",
		"env *", "nice f", "env -- $PROGRAM", "timeout 5 $CARRIED", "flock f", "script -qc", "unshare", "nice nice nice nice nice nice nice nice nice", "sudo", "setarch x86_64",
		"--", "\\command", "env -", "env evil=1", "ionice -c 3", "chrt -o 0", "taskset 1")
}

func (g *grammar) shell() string {
	text := g.script()
	if g.wildly() {
		return g.of(
			"sh -c "+g.word(), "bash -lc "+g.quoted(text), "sh -ec "+g.quoted(text), "echo "+g.quoted(text)+" | sh", "bash <<<"+g.quoted(text),
			"bash -s <<<"+g.quoted(text), `sh -c '$0 "$@"' evil`, `sh -c '"$@"' x `+g.simple(), `bash -c "$CODE"`, "sh ./script", "bash script", "sh -c "+g.quoted(text)+"$EMPTY",
			`sh -c 'eval "$1"' x `+g.quoted(text), "bash -c 'echo $(($1))' x 'a[$(evil)]'", `bash -c 'echo "${1@P}"' x '$(evil)'`, "bash -c -- "+g.quoted(text), "bash -x -c "+g.quoted(text),
			"sh -c "+g.quoted(text)+" $PROGRAM", "bash -O extglob -c "+g.quoted(text), "busybox sh -c "+g.quoted(text))
	}
	return g.spelled(g.of("sh", "bash")) + " -c " + g.quoted(text) + g.of("", "", " x", " x a 'b c'", " x \"$HOME\"")
}

// carrier is a program that can be made to run another.
func (g *grammar) carrier() string {
	return g.of(
		`find . -maxdepth 0 -exec evil \;`, `find . -maxdepth 0 $ARGS`, `find . -maxdepth 0 -e* evil \;`, "find sub -exec one {} +", `find f -exec sh -c evil \;`, `find f -exec env evil \;`,
		`find f -ex"ec" evil {} ';'`, `find $ARGS`, `find . -maxdepth 0 "$EXEC" evil \;`,
		"echo evil | xargs env", "echo a | xargs evil", "xargs -a f evil", "echo evil | xargs -I% sh -c %", "echo -c evil | xargs sh", "echo evil | xargs nice",
		`awk 'BEGIN{system("evil")}'`, `sed '1e evil' f`, "sed 's/.*/evil/e' f", "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec=evil f", "tar cIf evil /dev/null f",
		"tar cf /dev/null *", "tar cf /dev/null -- *", "sort --compress-program=evil -S 32k big", "sort *", "env *", "nice *", "busybox evil", "busybox echo a", "busybox sh -c evil",
		"$PROGRAM", "$CARRIED", "$EMPTY evil", "${X:-evil}", "{evil,a}", "sub/ls", "./evil", "./l*", "sub/../sub/ls", "~/sub/ls", "$HOME/sub/ls", "bin/evil", "$(echo evil)",
		"bin/e?il", "e{vi,}l", "$'evil'", `$"evil"`, "ev$EMPTY''il", "EVIL", "links/ls", "links/one", "'' evil", "jobs -x evil", "compgen -C evil",
	)
}

// simple is a program and its arguments.
func (g *grammar) simple() string {
	if g.wildly() {
		return g.spelled(g.of("evil", "evil", "rm", "reboot")) + " " + g.words()
	}
	name := g.of("echo", "echo", "one", "two", "printf", "cat", "ls", "head", "wc", "seq", "tr", "basename", "true", "sort", "find", "xargs", "uniq", "cut", "test", "pwd")
	program := g.spelled(name)
	switch name {
	case "printf":
		return program + " '%s\\n' " + g.words()
	case "cat":
		return program + g.of("", " f", " f sub/g", " -n f", " 'f'", " missing", " -- f", " -")
	case "ls":
		return program + g.of("", " -a", " sub", " s*", " -d */", " f missing", " \"$HOME\"", " -1 ./*", " {f,sub}", " [fs]*")
	case "head":
		return program + g.of(" -n 1", " -c 3", " -n 1 f", " -n1")
	case "wc":
		return program + g.of(" -l", " -c", " -l f")
	case "seq":
		return program + g.of(" 3", " 1 2 5", " -s, 3")
	case "tr":
		return program + g.of(" a b", " -d '\\n'", " a-z A-Z", " \";\" '|'")
	case "basename":
		return program + g.of(" /a/evil", " f", " \"$HOME\"")
	case "sort", "uniq":
		return program + g.of("", " f", " -c", " -r")
	case "cut":
		return program + g.of(" -c1", " -d ' ' -f1", " -f 1 -d';'")
	case "find":
		return program + g.of(" sub -name 'f*'", " . -maxdepth 1 -type f -name f", " sub \\( -name g -o -name h \\)", " f -exec one {} \\;", " f -exec "+"echo"+" {} +")
	case "xargs":
		return program + g.of(" echo", " -n 1 one", " -r two", " -0 echo a")
	case "test":
		return program + g.of(" -f f", " a = a", " -d sub -a -f f", " -z \"$EMPTY\"")
	case "pwd":
		return program
	}
	return program + " " + g.words()
}

// spelled writes the name of a program in one of several ways.
func (g *grammar) spelled(name string) string {
	program, rest, ok := strings.Cut(name, " ")
	if ok {
		rest = " " + rest
	}
	switch g.IntN(12) {
	case 0:
		program = "'" + program + "'"
	case 1:
		program = `"` + program + `"`
	case 2:
		program = `\` + program
	case 3:
		program = program[:1] + "''" + program[1:]
	case 4:
		program = program[:1] + "\\\n" + program[1:]
	case 5:
		program = "~/bin/" + program
	case 6:
		program = "bin/" + program
	}
	return program + rest
}

func (g *grammar) words() string { return g.some(0, 4, " ", g.word) }

func (g *grammar) word() string {
	if g.wildly() {
		return g.rule(
			func() string { return "$(" + g.nested() + ")" },
			func() string { return "\"$(" + g.nested() + ")\"" },
			func() string { return "`" + strings.NewReplacer("`", "", `\`, "").Replace(g.nested()) + "`" },
			func() string { return "<(" + g.nested() + ")" },
			func() string { return "${X:-$(" + g.nested() + ")}" },
			func() string { return "$((" + g.of("1", "INDEX", "a[$(evil)]", "X[1]") + "))" },
			func() string {
				return g.of("${CODE@P}", "${!INDEX}", "${HOME:INDEX}", "${a[INDEX]}", "${X:=1}", "${X?no}", "$[1+1]", "@(f|g)", "$\\\n(evil)", "-exec", "--", "'", `"`)
			},
		)
	}
	return g.some(1, 2, "", func() string {
		return g.rule(
			func() string {
				return g.of("a", "f", "evil", "-n", "-x", "sub/g", "a=b", "1", "é", "ab,c", "%", "+", "a:b", "a@b", "x^y", "]", "-")
			},
			func() string {
				return "'" + g.of("", "a b", "evil; evil", "$(evil)", "`evil`", "#", `\`, `a\nb`, `"`, "\n", "*", "~", "{a,b}", "&& evil", "中文", "$HOME", "!") + "'"
			},
			func() string {
				return `"` + g.of("", "a b", "evil; evil", `\$(evil)`, "\\`evil\\`", "#", `\\`, `a\nb`, `\"`, "\n", "*", "'", "$HOME", "${SPACE}", "$X", "& evil", "a\\\nb", "!", "it's") + `"`
			},
			func() string {
				return g.of(`\ `, `\;`, `\&`, `\|`, `\$HOME`, `\"`, `\'`, `\\`, `\#`, `\>`, "\\\n", `\(`, `\*`, `\evil`, `\~`)
			},
			func() string {
				return g.of("$HOME", "${SPACE}", "$EMPTY", "$X", "$?", "$#", "${#SPACE}", "${SPACE#a}", "${X:-a}", "${X-'a b'}", "${SPACE%b*}", "$1", "$@", `"$@"`)
			},
			func() string {
				return g.of("*", "s*", "?", "[fs]*", "sub/*", "no*such", "{a,b}", "{1..3}", "a{,b}", "~", "a~", "{a", "a}", "[", "~/sub")
			},
		)
	})
}

// nested is the command of a substitution.
func (g *grammar) nested() string {
	if g.budget <= 0 {
		return g.of("evil", "echo a", "echo evil")
	}
	return g.command()
}

// quoted is text as one word.
func (g *grammar) quoted(text string) string {
	switch g.IntN(3) {
	case 0:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text) + `"`
	case 1:
		if !strings.Contains(text, "\n") {
			var b strings.Builder
			for i, r := range text {
				if i == 0 && r == '~' || strings.ContainsRune("|&;<>()$`\\\"' \t*?[#{}!", r) {
					b.WriteByte('\\')
				}
				b.WriteRune(r)
			}
			if b.Len() > 0 {
				return b.String()
			}
		}
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (g *grammar) hereDocument() string {
	g.budget--
	body := g.some(0, 3, "", func() string {
		return g.of("a\n", "evil\n", "it's; evil\n", "é & evil\n", "\\\\\n", " E\n", "EE\n", "\"\n", "#\n")
	})
	end := g.of("E", "'E'", `\E`, `"E"`)
	switch {
	case g.wildly():
		body += g.of("$(evil)\n", "`evil`\n", "${CODE@P}\n", "$((INDEX))\n", "\\$(evil)\n", "\\\\$(evil)\n", "E \nevil\n", "E\\\n\n")
	case end != "E":
		body += g.of("$(evil)\n", "`evil`\n", "$HOME\n", "${CODE@P}\n", "\\\n", "")
	default:
		body += g.of("$HOME $X\n", "${SPACE#a}\n", "\\$(evil)\n", "a\\\nb\n", "")
	}
	rest := g.of("", "", " | wc -l", " 2>/dev/null", " && one", "; two")
	operator, tab := g.of(" <<", "<<", "<<-", " <<- "), ""
	if strings.Contains(operator, "-") {
		body = strings.ReplaceAll(body, "e", "\te")
		tab = g.of("\t", "\t\t", "")
	}
	return g.of("cat", "cat -n", "nice cat", "sort") + operator + end + rest + "\n" + tab + body + tab + "E" + g.of("", "\n", "\none a")
}
