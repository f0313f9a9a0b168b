package pathenv

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Environment is the environment of a command, with the origin of its parts.
type Environment struct {
	Vars    []string    // "NAME=value", sorted
	Path    []PathEntry // the entries of PATH, in order; a login profile may add or remove some
	Dropped []Dropped   // the variables that were left out, sorted by source and name
}

// Lookup returns the value of a variable.
func (e Environment) Lookup(name string) (string, bool) {
	for _, kv := range e.Vars {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// PathDirs returns the directories of PATH.
func (e Environment) PathDirs() []string { return dirsOf(e.Path) }

// Report describes the variables that were left out, for the result of a command. The
// notice lists, by name, the variables that no command gets there. The warnings are
// sentences about variables that this call asked for and did not get.
func (e Environment) Report() (notice string, warnings []string) {
	var standing []string
	var call Environment
	for _, d := range e.Dropped {
		if d.Source == SourceCall {
			call.Dropped = append(call.Dropped, d)
		} else {
			standing = append(standing, d.Name)
		}
	}
	slices.Sort(standing)
	return leftOut(slices.Compact(standing)), call.Warnings()
}

// The bounds of a notice. The environment may have any number of variables, with any
// names.
const (
	maxNames = 24
	maxName  = 64 // bytes
)

// leftOut is a notice about variables that commands do not get.
func leftOut(names []string) string {
	if len(names) == 0 {
		return ""
	}
	var said []string
	for _, name := range names[:min(len(names), maxNames)] {
		if !plainName(name) {
			name = strconv.QuoteToASCII(name)
		}
		if len(name) > maxName {
			name = name[:maxName-len("...")] + "..."
		}
		said = append(said, name)
	}
	text := fmt.Sprintf("%d variables left out: ", len(names))
	if len(names) == 1 {
		text = "1 variable left out: "
	}
	text += strings.Join(said, ", ")
	if more := len(names) - len(said); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// plainName reports whether a name has only letters, digits and underscores, so that it
// can be shown as it is.
func plainName(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Warnings says in sentences which variables were left out and why; one
// sentence for each source and reason.
func (e Environment) Warnings() []string {
	type group struct {
		source Source
		reason Reason
	}
	var order []group
	names := make(map[group][]string)
	for _, d := range e.Dropped {
		g := group{d.Source, d.Reason}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], d.Name)
	}
	var warnings []string
	for _, g := range order {
		warnings = append(warnings, fmt.Sprintf("Left out of the command's environment: %s from %s (%s).", strings.Join(names[g], ", "), g.source, g.reason))
	}
	return warnings
}

// A Dropped is a variable that a command does not get.
type Dropped struct {
	Name   string `json:"name"`
	Source Source `json:"source"`
	Reason Reason `json:"reason"`
}

// A Source is the origin of a variable that was left out.
type Source string

const (
	SourceDaemon Source = "the daemon's environment"
	SourceNode   Source = "the node's environment"
	SourceImage  Source = "the image"
	SourceConfig Source = "the sandbox configuration"
	SourceCall   Source = "the call"
)

// A Reason is why a variable was left out. The set is closed.
type Reason string

const (
	ReasonHook       Reason = "runs or loads code"
	ReasonRedirect   Reason = "redirects a tool"
	ReasonCredential Reason = "looks like a credential and is not listed as wanted"
	ReasonStrict     Reason = "not known to be harmless, and the sandbox is strict"
	ReasonReserved   Reason = "is set by Corral itself"
	ReasonMalformed  Reason = "is not a variable"
	ReasonPath       Reason = "this node does not take a PATH"
	ReasonDisplay    Reason = "only display variables reach a shell that hides its command"
)

// A builder collects variables. On Windows, names that differ only in case are the same
// variable, and the first spelling stays.
type builder struct {
	goos    string
	vars    map[string]variable
	dropped []Dropped
}

type variable struct{ name, value string }

func newBuilder(goos string) *builder {
	return &builder{goos: goos, vars: make(map[string]variable)}
}

func (b *builder) key(name string) string {
	if b.goos == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

func (b *builder) get(name string) string { return b.vars[b.key(name)].value }

func (b *builder) has(name string) bool {
	_, ok := b.vars[b.key(name)]
	return ok
}

func (b *builder) set(name, value string) {
	key := b.key(name)
	if old, ok := b.vars[key]; ok {
		name = old.name
	}
	b.vars[key] = variable{name, value}
}

func (b *builder) drop(name string, source Source, reason Reason) {
	b.dropped = append(b.dropped, Dropped{name, source, reason})
}

// inherit takes over the environment of the daemon; source is its name in Dropped. If a
// name occurs several times, the last value counts, as in exec.Cmd. Variables in keep are
// kept even if a rule leaves them out.
func (b *builder) inherit(environ, keep []string, source Source) {
	kept := names(strings.ToUpper(strings.Join(keep, " ")))
	for _, kv := range environ {
		name, value, ok := cutVariable(kv, b.goos)
		switch {
		case kv == "":
			continue // not a variable
		case !ok:
			b.drop(name, source, ReasonMalformed)
			continue
		}
		why := whyNotInherited(name)
		if why == "" || kept[strings.ToUpper(name)] && why != ReasonReserved {
			b.set(name, value)
		} else {
			b.drop(name, source, why)
		}
	}
}

// cutVariable reads "NAME=value". Windows keeps the current directory of each
// drive in variables such as "=C:".
func cutVariable(kv, goos string) (name, value string, ok bool) {
	search := kv
	if goos == "windows" && strings.HasPrefix(kv, "=") {
		search = kv[1:]
	}
	name, value, ok = strings.Cut(search, "=")
	name = kv[:len(kv)-len(search)] + name
	return name, value, ok && name != "" && strings.IndexByte(kv, 0) < 0
}

// list returns the variables, sorted.
func (b *builder) list() []string {
	vars := make([]string, 0, len(b.vars))
	for _, v := range b.vars {
		vars = append(vars, v.name+"="+v.value)
	}
	slices.Sort(vars)
	return vars
}

// finish adds the variables that every command gets, and returns the result.
func (b *builder) finish(profile Profile, tty bool, path []PathEntry, call map[string]string) (Environment, error) {
	markers, err := profile.markers()
	if err != nil {
		return Environment{}, err
	}
	for name, value := range markers {
		if asked, ok := call[name]; ok && asked != value {
			b.drop(name, SourceCall, ReasonReserved)
		}
		b.set(name, value)
	}
	if tty && !b.has("TERM") {
		b.set("TERM", "xterm-256color")
	}
	b.set("PATH", strings.Join(dirsOf(path), listSeparator(b.goos)))

	env := Environment{Vars: b.list(), Path: path, Dropped: b.dropped}
	slices.SortFunc(env.Dropped, func(x, y Dropped) int {
		return cmp.Or(cmp.Compare(x.Source, y.Source), strings.Compare(x.Name, y.Name))
	})
	env.Dropped = slices.Compact(env.Dropped)
	return env, nil
}

// withVariable returns the sorted vars with one more variable.
func withVariable(vars []string, name, value string) []string {
	kv := name + "=" + value
	i, _ := slices.BinarySearch(vars, kv)
	return slices.Insert(slices.Clone(vars), i, kv)
}
