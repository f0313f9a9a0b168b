//go:build linux

package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The arguments of the warden's program that have it call Main.
const (
	Take  = "-login"       // with the path of a shell: take a snapshot of the environment and the directory that it is started with
	state = "-login-state" // write down what it was started with; the shell of a snapshot becomes this
)

const (
	// limit is how long a profile may take. It is run twice.
	limit = 5 * time.Second
	// linger is how long what a profile leaves in the background may hold its output.
	// The end of the output is no later than that on a busy machine.
	linger = 2 * time.Second
	// maxOutput bounds what is read of a profile's output, in bytes.
	maxOutput = 1 << 20
	maxSource = 1 << 20
	// MaxEnv bounds a snapshot, in bytes.
	MaxEnv = 64 << 10
	// settled is how long ago the files of a profile must have changed last: a clock
	// of the file system that is coarse could show the next change as the same time.
	settled = 100 * time.Millisecond
)

// Main takes a snapshot and writes it to stdout, for Table. False: the arguments are not its own.
func Main(args []string, stdout io.Writer) bool {
	switch {
	case len(args) == 2 && args[0] == Take:
		_, _ = io.WriteString(stdout, take(args[1]).encode()) // nobody reads it any more
	case len(args) == 1 && args[0] == state:
		_, _ = io.WriteString(stdout, ownState())
	default:
		return false
	}
	return true
}

// A snapshot is what a login profile leaves, or why there is none.
type snapshot struct {
	env     []string
	watches []watch
	why     string // against it; empty: nothing
	again   bool   // it was too early: nothing is known
}

// A run is what a shell had when it had read its profile, or would have.
type run struct {
	output string   // of the profile
	trace  []string // its commands
	odd    string   // what is on standard error beside the trace
	whole  bool     // it came to the end of the profile
	dump   []string // state of the shell and of its process, in lines
	env    []string
}

// take takes a snapshot with the environment and the directory of this process.
func take(shell string) snapshot {
	begin := time.Now()
	self, err := os.Executable()
	if err != nil {
		return snapshot{why: err.Error()}
	}
	dir, err := os.Getwd()
	if err != nil {
		return snapshot{why: err.Error()}
	}
	t := &taker{shell: shell, self: self, marker: strings.ToLower(rand.Text()), given: environment(os.Environ())}
	s := t.take(dir, begin)
	if len(strings.Join(s.env, "\x00")) > MaxEnv {
		s.why, s.env = fmt.Sprintf("its environment has more than %d bytes", MaxEnv), nil
	}
	return s
}

// A taker takes one snapshot.
type taker struct {
	shell  string
	self   string // this program
	marker string // that nothing else prints
	given  map[string]string
}

func (t *taker) take(dir string, begin time.Time) (s snapshot) {
	r := newReading(t.shell, t.given["HOME"], dir, t.given["PATH"])
	defer func() { // also what is refused may be different later
		if s.watches == nil {
			var changed time.Time
			s.watches, changed = r.look(begin)
			s.again = begin.Sub(changed) < settled
		}
	}()
	refuse := func(format string, args ...any) snapshot {
		return snapshot{why: fmt.Sprintf(format, args...)}
	}
	first, err := t.run("-lxc", os.Environ(), nil)
	if err != nil {
		return refuse("%v", err)
	}
	if after := environment(first.env)["PATH"]; first.whole && after != t.given["PATH"] {
		r.paths = append(r.paths, after)
	}
	for _, line := range first.trace {
		r.command(line)
	}
	if slices.ContainsFunc(first.dump, func(line string) bool { return strings.HasPrefix(line, "BASH_VERSION=") }) {
		r.absent(path.Join(r.home, ".bash_logout"))
		r.absent("/etc/bash.bash_logout")
		if environment(first.env)["BASH_ENV"] != "" {
			r.refuse("the shell reads the file that BASH_ENV names each time")
		}
	}
	r.readSources()
	switch {
	case first.output != "":
		return refuse("it writes to standard output: %s", quoted(first.output))
	case !first.whole && first.odd == "":
		return refuse("it ends the shell, or replaces it")
	case first.odd != "":
		return refuse("it writes to standard error, or sets what a trace does not show on one line: %s", quoted(first.odd))
	case r.why != "":
		return refuse("%s", r.why)
	}
	watches, changed := r.look(begin)
	if begin.Sub(changed) < settled {
		return snapshot{again: true, watches: watches}
	}

	second, err := t.run("-lxc", os.Environ(), r.names())
	if err != nil {
		return refuse("%v", err)
	}
	env, why := t.carried(second.env)
	switch {
	case second.output != "" || second.odd != "" || !second.whole,
		!maps.Equal(environment(first.env), environment(second.env)), !slices.Equal(first.trace, second.trace):
		return refuse("it is not the same each time")
	case why != "":
		return refuse("%s", why)
	}
	plain, err := t.run("-xc", append(slices.Clone(env), t.ps4()), r.names())
	if err != nil {
		return refuse("%v", err)
	}
	if line := difference(second.dump, plain.dump); line != "" {
		return refuse("it leaves more than an environment: %s", quoted(line))
	}
	if got, _ := t.carried(plain.env); !maps.Equal(environment(got), environment(env)) {
		return refuse("a shell with its environment does not keep it")
	}
	for _, w := range watches {
		if !w.current() {
			return snapshot{again: true, watches: watches}
		}
	}
	return snapshot{env: env, watches: watches}
}

// ps4 is the prompt of traces. Shells repeat its first character.
func (t *taker) ps4() string { return "PS4=+" + t.marker + " " }

// script prints the state of the shell that runs it, and becomes the program that
// prints that of its process.
func (t *taker) script(functions []string) string {
	var b strings.Builder
	mark := "echo " + t.marker[:8] + "''" + t.marker[8:] + "\n" // bash has this text among its variables
	b.WriteString(mark + "set\nalias\ntrap\necho \"$-\" \"$#\"\n")
	for _, f := range functions {
		b.WriteString("command -V " + f + " 2>&1 || :\n")
	}
	b.WriteString(mark + "exec '" + strings.ReplaceAll(t.self, "'", `'\''`) + "' " + state + "\n")
	return b.String()
}

// run runs a shell, as commands are run: in a session of its own.
func (t *taker) run(option string, env, functions []string) (run, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.shell, option, t.script(functions))
	cmd.Env = append(slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "PS4=") }), t.ps4())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = linger
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return run{}, fmt.Errorf("it takes longer than %v", limit)
	case errors.Is(err, exec.ErrWaitDelay):
		return run{}, errors.New("it leaves a process in the background")
	case stdout.full || stderr.full:
		return run{}, errors.New("it writes too much")
	case err != nil && !errors.As(err, new(*exec.ExitError)):
		return run{}, fmt.Errorf("it cannot be tried: %w", err)
	}
	return t.parse(stdout.String(), stderr.String()), nil
}

// parse reads what a shell wrote.
func (t *taker) parse(stdout, stderr string) run {
	var u run
	sections := strings.Split("\n"+stdout, "\n"+t.marker+"\n") // it is also a value, as that of $_
	u.output = strings.TrimPrefix(sections[0], "\n")
	if u.whole = len(sections) == 3; u.whole {
		process, env, ok := strings.Cut(sections[2], "\x00\n")
		u.whole = ok
		u.env = strings.Split(strings.TrimSuffix(env, "\x00"), "\x00")
		for line := range strings.Lines(sections[1] + process) {
			if line = plainLine(strings.TrimSuffix(line, "\n")); line != "" {
				u.dump = append(u.dump, line)
			}
		}
	}
	for line := range strings.Lines(stderr) {
		line = strings.TrimSuffix(line, "\n")
		command, ok := strings.CutPrefix(strings.TrimLeft(line, "+"), t.marker+" ")
		if !ok {
			u.odd = line + "\n"
			break
		}
		if command == "echo "+t.marker {
			break
		}
		u.trace = append(u.trace, command)
	}
	return u
}

// plainLine is a line of a shell's state without what is another in each shell, or is
// no one's concern; empty: nothing is left.
func plainLine(line string) string {
	name, value, _ := strings.Cut(line, "=")
	switch name {
	case "PPID", "_", "LINENO", "PIPESTATUS", "FUNCNAME", "RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "BASHPID",
		"BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "BASH_EXECUTION_STRING",
		"PS1", "PS2": // the prompts of shells that are not interactive
		return ""
	case "BASHOPTS":
		return name + "=" + strings.Replace(value, "login_shell:", "", 1)
	}
	return line
}

// ProcessID is the variable with the ID of a command, and Placeholder its value while a
// snapshot is taken.
const (
	ProcessID   = "CORRAL_PROCESS"
	Placeholder = "corral-login-snapshot"
)

// carried is the environment that a plain shell is to be given for what a login
// shell has; else why there is none.
func (t *taker) carried(env []string) (_ []string, why string) {
	after := environment(env)
	if after["PS4"] != strings.TrimPrefix(t.ps4(), "PS4=") {
		return nil, "it sets PS4"
	}
	if after["HOME"] != t.given["HOME"] {
		return nil, "it sets HOME"
	}
	for name, value := range after {
		if strings.Contains(value, t.marker) && name != "PS4" || (name == ProcessID) != strings.Contains(value, Placeholder) {
			return nil, "it uses variables that are another in each command: " + name
		}
	}
	if after[ProcessID] != t.given[ProcessID] {
		return nil, "it sets " + ProcessID
	}
	for _, name := range []string{"PS4", "SHLVL", "_"} { // of which shells make their own
		delete(after, name)
		if value, ok := t.given[name]; ok {
			after[name] = value
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		list = append(list, name+"="+after[name])
	}
	return list, ""
}

// difference is the first line that one has and the other does not.
func difference(a, b []string) string {
	for i, line := range a {
		if i >= len(b) || b[i] != line {
			if i < len(b) && !slices.Contains(a, b[i]) && slices.Contains(b, line) {
				return b[i]
			}
			return line
		}
	}
	if len(b) > len(a) {
		return b[len(a)]
	}
	return ""
}

// absent refuses a profile beside which a file is that is read at the shell's end.
func (r *reading) absent(name string) {
	r.watch(name, false)
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		r.refuse("a login shell reads %s at its end", name)
	}
}

// readSources reads the text of the profile's files.
func (r *reading) readSources() {
	for _, name := range r.sourced {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			continue // the shell cannot read it either
		}
		if err != nil {
			r.refuse("%v", err)
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, maxSource+1))
		f.Close()
		switch {
		case err != nil:
			r.refuse("%v", err)
		case len(b) > maxSource:
			r.refuse("%s has more than %d bytes", name, maxSource)
		default:
			r.text(string(b))
		}
	}
}

// look looks at the files. changed is when one of them last did.
func (r *reading) look(begin time.Time) (list []watch, changed time.Time) {
	for _, name := range slices.Sorted(maps.Keys(r.watches))[:min(len(r.watches), maxWatches)] {
		w := watch{path: name, content: r.watches[name]}
		var at time.Time
		if w.state, at = w.look(); at.After(changed) && !at.After(begin.Add(time.Hour)) {
			changed = at
		}
		list = append(list, w)
	}
	return list, changed
}

// ownState is what of a process is not its shell's, and its environment.
func ownState() string {
	var b strings.Builder
	dir, err := os.Readlink("/proc/self/cwd")
	fmt.Fprintln(&b, "directory", dir, err)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if name, _, _ := strings.Cut(line, ":"); name == "Umask" || name == "SigIgn" || name == "SigBlk" {
			b.WriteString(line)
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	b.Write(limits)
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		if n, err := strconv.Atoi(f.Name()); err == nil && n > 2 {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "anon_inode:") {
				fmt.Fprintln(&b, "descriptor", f.Name(), to)
			}
		}
	}
	b.WriteString("\x00\n")
	env, _ := os.ReadFile("/proc/self/environ")
	b.Write(env)
	return b.String()
}

func environment(list []string) map[string]string {
	m := make(map[string]string, len(list))
	for _, v := range list {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return m
}

// bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxOutput {
		b.full = true
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
