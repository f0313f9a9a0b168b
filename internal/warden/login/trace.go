//go:build linux

package login

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral/pathenv/lookup"
)

const (
	maxWatches   = 128
	maxFunctions = 64
	maxQuoted    = 60 // bytes of a profile that a reason quotes
)

// A reading collects what decides the effect of a profile, from the shell's trace and
// from the text of the profile's files.
type reading struct {
	home, dir string
	paths     []string // values of PATH, in which programs are looked for

	watches   map[string]bool // by path: whether the content counts
	sourced   []string        // files whose text the shell read
	functions map[string]bool // that the text may define
	why       string          // the first reason against a snapshot; empty: none
}

func newReading(shell, home, dir string, paths ...string) *reading {
	r := &reading{home: home, dir: dir, paths: paths, watches: map[string]bool{}, functions: map[string]bool{}}
	r.source("/etc/profile")
	names := []string{".profile"}
	if path.Base(shell) == "bash" {
		names = []string{".bash_profile", ".bash_login", ".profile"} // it reads the first that it can
	}
	for _, name := range names {
		name = path.Join(home, name)
		r.source(name)
		if f, err := os.Open(name); err == nil {
			f.Close()
			break
		}
	}
	r.watch("/etc/profile.d", true)
	r.watch(shell, true)
	if strings.ContainsAny(home, " \t\n'\"\\*?[") || !strings.HasPrefix(home, "/") {
		r.refuse("HOME is %q, which a trace does not show clearly", home)
	}
	return r
}

func (r *reading) refuse(format string, args ...any) {
	if r.why == "" {
		r.why = fmt.Sprintf(format, args...)
	}
}

func (r *reading) watch(name string, content bool) {
	if r.watches[name] = r.watches[name] || content; len(r.watches) > maxWatches {
		r.refuse("it depends on more than %d files", maxWatches)
	}
}

func (r *reading) source(name string) {
	if !slices.Contains(r.sourced, name) {
		r.sourced = append(r.sourced, name)
	}
	r.watch(name, true)
}

// names lists the functions that the profile may have defined.
func (r *reading) names() []string { return slices.Sorted(maps.Keys(r.functions)) }

// pure are built-in commands that depend on their arguments and the shell's state
// alone, and change no more than that: what of it is left is compared afterwards.
var pure = set(": [ [[ (( test true false echo printf export unset readonly local typeset declare return shift eval " +
	"umask ulimit alias unalias trap break continue getopts shopt let pwd for case if while until select function")

// refused are commands whose effect no snapshot has, or that depend on more than what is watched.
var refused = set("read mapfile readarray wait kill times fc jobs bg fg exec set cd pushd popd coproc enable builtin")

// steady are programs that always say the same to the same arguments.
var steady = set("id uname basename dirname expr run-parts")

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, name := range strings.Fields(names) {
		m[name] = true
	}
	return m
}

// command reads a line of the trace: a command with its arguments, as the shell
// expanded them. Some shells quote them, and others do not.
func (r *reading) command(line string) {
	if strings.Contains(line, "2>") || strings.Contains(line, "&>") { // the text of eval
		r.text(line)
	}
	r.define(line)
	words := split(line)
	assigned := false
	for len(words) > 0 && isAssignment(words[0]) {
		if strings.HasPrefix(words[0], "HOME=") {
			r.refuse("it sets HOME")
		}
		words, assigned = words[1:], true
	}
	if len(words) == 0 {
		return
	}
	name, args := words[0], words[1:]
	switch {
	case name == "." || name == "source":
		r.sources(args, line)
	case name == "command" || name == "type" || name == "hash":
		r.looksUp(name, args, line)
	case refused[name]:
		r.refuse("it runs %s", quoted(line))
	case pure[name]:
		r.operands(name, args)
	case strings.Contains(name, "/"):
		if assigned && !strings.HasPrefix(name, "/") && !lookup.Executable(path.Join(r.dir, name)) {
			return // the rest of a value that is not quoted
		}
		r.program(name, args, line)
	default:
		for _, p := range r.paths {
			if file, err := lookup.Program(name, p, r.dir); err == nil {
				r.program(file, args, line)
			}
		}
		// Else a function, whose commands are in the trace, or the rest of a value.
	}
}

// program judges a program that the profile runs.
func (r *reading) program(file string, args []string, line string) {
	name := path.Base(file)
	dir := path.Dir(file)
	if !steady[name] || dir != "/bin" && dir != "/usr/bin" || name == "run-parts" && !slices.Contains(args, "--list") {
		r.refuse("it runs a program, which may do something else each time: %s", quoted(line))
		return
	}
	if name == "run-parts" {
		for _, a := range args {
			if strings.HasPrefix(a, "/") {
				r.watch(a, true)
			}
		}
	}
}

func (r *reading) sources(args []string, line string) {
	if len(args) != 1 || !strings.HasPrefix(args[0], "/") {
		r.refuse("it reads a file by a name that is not absolute, or is not clear: %s", quoted(line))
		return
	}
	r.source(args[0])
	if dir := path.Dir(args[0]); dir != r.home && dir != "/" && dir != "/tmp" {
		r.watch(dir, true) // a pattern may have found it there, and may find others
	}
}

// looksUp reads command -v NAME, and what is like it: programs may come and go.
func (r *reading) looksUp(name string, args []string, line string) {
	if name == "command" && (len(args) == 0 || args[0] != "-v" && args[0] != "-V") {
		r.refuse("it runs %s", quoted(line))
		return
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") || pure[a] {
			continue
		}
		if strings.HasPrefix(a, "/") {
			r.watch(a, false)
			continue
		}
		for _, p := range r.paths {
			for dir := range strings.SplitSeq(p, ":") {
				r.watch(path.Join(r.dir, dir, a), false)
				if strings.HasPrefix(dir, "/") {
					r.watch(path.Join(dir, a), false)
				}
			}
		}
	}
}

// fileTests are the operators of test that look at a file, and contentTests those that
// look at more than whether it is there and what it is.
var (
	fileTests    = set("-b -c -d -e -f -g -h -k -L -p -r -s -S -u -w -x -G -O -N -a")
	contentTests = set("-s -N -nt -ot -ef")
)

func (r *reading) operands(name string, args []string) {
	if name != "[" && name != "test" && name != "[[" {
		return
	}
	content := slices.ContainsFunc(args, func(a string) bool { return contentTests[a] })
	for i, a := range args {
		switch {
		case strings.ContainsAny(a, "*?["): // a pattern that found nothing
			if dir := path.Dir(a); strings.HasPrefix(a, "/") && dir != r.home {
				r.watch(dir, true)
			}
		case strings.HasPrefix(a, "/"):
			r.watch(a, content)
		case i > 0 && fileTests[args[i-1]] && a != "]" && a != "]]" && a != "":
			r.watch(path.Join(r.dir, a), content)
		}
	}
}

// silent are commands whose standard error a profile may redirect: what they run is in
// the trace all the same. Of a group, a function or a file it would not be.
var silent = set("[ test type hash unset unalias id")

// text reads the text of a file of the profile. Without redirections of standard error
// beyond those of single commands, all commands of the profile are in the trace.
func (r *reading) text(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		r.define(line)
		for rest := line; ; {
			i := strings.Index(rest, "2>")
			if j := strings.Index(rest, "&>"); j >= 0 && (i < 0 || j < i) {
				i = j
			}
			if i < 0 {
				break
			}
			before := line[:len(line)-len(rest)+i]
			before = before[strings.LastIndexAny(before, ";|&(){}`")+1:]
			words := strings.Fields(before)
			for len(words) > 0 && set("if then elif else while until do !")[words[0]] {
				words = words[1:]
			}
			if len(words) == 0 || !silent[words[0]] && (len(words) < 2 || words[0] != "command" || words[1] != "-v" && words[1] != "-V") {
				r.refuse("it redirects standard error, so that its trace is not whole: %s", quoted(line))
			}
			rest = rest[i+2:]
		}
	}
}

// define finds the names of functions that a text may define.
func (r *reading) define(text string) {
	add := func(name string) {
		if name != "" {
			if r.functions[name] = true; len(r.functions) > maxFunctions {
				r.refuse("it may define more than %d functions", maxFunctions)
			}
		}
	}
	inName := func(c rune) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for rest := text; ; {
		i := strings.IndexByte(rest, '(')
		if i < 0 {
			break
		}
		before := strings.TrimRight(rest[:i], " \t")
		rest = rest[i+1:]
		if strings.HasPrefix(strings.TrimLeft(rest, " \t"), ")") {
			add(before[strings.LastIndexFunc(before, func(c rune) bool { return !inName(c) })+1:])
		}
	}
	words := strings.Fields(text)
	for i, w := range words[:max(len(words)-1, 0)] {
		if w == "function" {
			add(strings.TrimFunc(words[i+1], func(c rune) bool { return !inName(c) }))
		}
	}
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	name = strings.TrimSuffix(name, "+")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// split returns the words of a line. Where its quotes do not fit together, the shell
// does not quote, and blanks are all that there is to go by.
func split(line string) []string {
	var words []string
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			word = append(word, c)
		case c == '\\' && i+1 < len(line):
			i++
			word, in = append(word, line[i]), true
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				words, word, in = append(words, string(word)), word[:0], false
			}
		default:
			word, in = append(word, c), true
		}
	}
	if quote != 0 {
		return strings.Fields(line)
	}
	if in {
		words = append(words, string(word))
	}
	return words
}

func quoted(line string) string {
	return fmt.Sprintf("%q", strings.ToValidUTF8(line[:min(len(line), maxQuoted)], "\uFFFD"))
}
