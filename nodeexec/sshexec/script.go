package sshexec

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

// bootstrap is the text that the server executes for every command. The account's login
// shell reads it. That may be any shell, so the text has nothing that sh, csh and fish
// read in different ways. It starts sh, which reads one line, byte by byte, so that the
// rest is the command's input, and evaluates the line. It does not evaluate an
// incomplete line.
const bootstrap = `exec /bin/sh -c 'corral_n=$(printf "\nx"); corral_n=${corral_n%x}; LC_ALL=C IFS= read -r corral_s && eval "$corral_s"'`

// quote makes s one word of a shell, unchanged and on one line: bootstrap has a line
// feed in a variable.
func quote(s string) string {
	s = strings.ReplaceAll(s, `'`, `'\''`)
	return `'` + strings.ReplaceAll(s, "\n", `'"$corral_n"'`) + `'`
}

// marks frame the script's report, since the files of a login shell may also print
// text. They are long and random. In the script each is in two halves, so that not even
// an echo of the script contains them.
type marks struct{ begin, end string }

func newMarks() marks { return marks{"<" + corral.NewID(), corral.NewID() + ">"} }

// printf returns a command that prints words between the marks.
func (m marks) printf(words ...string) string {
	half := len(m.begin) / 2
	list := []string{m.begin[:half], m.begin[half:]}
	list = append(list, words...)
	half = len(m.end) / 2
	list = append(list, m.end[:half], m.end[half:])
	return "printf '" + strings.Repeat("%s", len(list)) + "' " + strings.Join(quoteMarks(list, len(words)), " ")
}

// quoteMarks quotes the halves, but not the words between them, which the shell
// expands.
func quoteMarks(list []string, words int) []string {
	for i := range list {
		if i < 2 || i >= 2+words {
			list[i] = quote(list[i])
		}
	}
	return list
}

// A launch is a command for a script: its Args are what is executed, also for shell text,
// and its Dir is absolute, or relative to the session's first directory.
type launch struct {
	corral.Command
	vars []string // its environment, as NAME=value
}

// The reports of a script.
const (
	reportStarts     = 'S' // then the PID, a space and the directory
	reportDir        = 'D' // then why it cannot be entered
	reportNoTerminal = 'T'
)

// cooked are the modes of a terminal when the command begins; the script is read in
// rawModes.
const cooked = "stty icanon echo isig iexten icrnl ixon"

// reserved are variables that bash, or zsh, does not let a script set. They are numbers of
// users and processes, so an argument list may have them.
var reserved = []string{"UID", "EUID", "GID", "EGID", "PPID", "GROUPS"}

// script returns the line that runs the command.
func (l launch) script(m marks) string {
	dir := l.Dir
	if !strings.HasPrefix(dir, "/") {
		dir = "./" + dir // not an option, and not searched for in CDPATH
	}
	var b strings.Builder
	fmt.Fprintf(&b, `cd -P -- %[1]s 2>/dev/null || { corral_s=$(cd -P -- %[1]s 2>&1); %[2]s; exit 1; }; `,
		quote(dir), m.printf(string(reportDir), `"$corral_s"`))
	if l.TTY != nil {
		fmt.Fprintf(&b, `%s || { %s; exit 1; }; `, cooked, m.printf(string(reportNoTerminal)))
	}
	var late string // for env, which takes what follows as the program, whatever it begins with
	for _, kv := range l.vars {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(reserved, name) {
			late += " " + quote(kv)
			continue
		}
		b.WriteString("export " + quote(kv) + "; ")
	}
	if l.TTY == nil {
		b.WriteString(m.printf() + " >&2; ")
	}
	if l.MergeStderr && l.TTY == nil {
		b.WriteString("exec 2>&1; ")
	}
	b.WriteString(m.printf(string(reportStarts)+`$$" "`, `"$PWD"`) + "; exec")
	switch {
	case late != "":
		b.WriteString(" env" + late)
	case strings.HasPrefix(l.Args[0], "-"):
		b.WriteString(" --")
	}
	for _, a := range l.Args {
		b.WriteString(" " + quote(a))
	}
	return b.String() + "\n"
}

// maxPreamble bounds the output before the command's own: the text from the files of
// login shells, and the report.
const maxPreamble = 256 << 10

var errPreamble = errors.New("too much output before the command's own")

// A preamble is the output before the command's own.
type preamble struct {
	marks
	seen []byte
}

// add adds output. When both marks are there, it returns the text between them and the
// rest.
func (p *preamble) add(b []byte) (report string, rest []byte, done bool, err error) {
	p.seen = append(p.seen, b...)
	from := bytes.Index(p.seen, []byte(p.begin))
	if from >= 0 {
		text := p.seen[from+len(p.begin):]
		if to := bytes.Index(text, []byte(p.end)); to >= 0 {
			return string(text[:to]), text[to+len(p.end):], true, nil
		}
	}
	if len(p.seen) > maxPreamble {
		return "", nil, false, errPreamble
	}
	return "", nil, false, nil
}

// started parses the report of a command that is about to begin.
func started(report string) (pid int, dir string, ok bool) {
	text, dir, ok := strings.Cut(report[1:], " ")
	pid, err := strconv.Atoi(text)
	return pid, dir, ok && err == nil && pid > 1 && strings.HasPrefix(dir, "/")
}

// firstLine returns the first line of output that is not blank, for an error.
func firstLine(b []byte) string {
	for line := range strings.Lines(string(b[:min(len(b), 4<<10)])) {
		line = strings.TrimSpace(strings.ToValidUTF8(line, "?"))
		if line != "" {
			return strconv.Quote(line[:min(len(line), 200)])
		}
	}
	return ""
}
