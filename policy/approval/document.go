package approval

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// Unknown names in a document are kept. But a name that is nearly one of these is an
// error: its author meant to forbid or to narrow something, and it would have no effect.
var (
	topNames   = []string{"version", "defaults", "agents"}
	partNames  = []string{"security", "ask", "askFallback", "allowlist", "denylist", "asklist"}
	entryNames = []string{"pattern", "argPattern", "args", "sha256", "env", "command"}
	meant      = map[string]string{"deny": "denylist", "allow": "allowlist"}
)

type ruleList struct {
	name   string
	action policy.Action
}

// lists are the lists of rules that a part of a document can have.
var lists = []ruleList{{"denylist", policy.Deny}, {"asklist", policy.Query}, {"allowlist", policy.Allow}}

// A document is the content of a file.
type document struct {
	file     string
	text     []byte
	root     *node
	warnings []string

	defaults part
	agents   map[string]part // by agent; "main" is also "default"
}

// A part is the settings and rules of a document for one agent, or for all.
type part struct {
	settings Settings
	entries  []entry
}

// An entry is a rule and the node it was read from.
type entry struct {
	rule policy.Rule
	list string // the key of its list
	node *node
}

// read parses the text of a file. An error names the place in it and the mistake.
func read(file string, text []byte) (*document, error) {
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	d := &document{file: file, text: text, root: root, agents: map[string]part{}}
	if !root.isObject() {
		return nil, d.fail(root, "it is not an object")
	}
	if err := d.names(root, topNames); err != nil {
		return nil, err
	}
	switch v := root.get("version"); {
	case v == nil:
		return nil, d.fail(root, "it has no version; this program knows version 1")
	case string(v.raw) != "1":
		return nil, d.fail(v, "the version is not 1, which is what this program knows")
	}
	if n := root.get("defaults"); !n.null() {
		if d.defaults, err = d.part(n, true); err != nil {
			return nil, err
		}
	}
	agents := root.get("agents")
	if agents.null() {
		return d, nil
	}
	if !agents.isObject() {
		return nil, d.fail(agents, "it is not an object")
	}
	mergeDefault(agents)
	for _, m := range agents.members {
		if m.value.null() {
			continue
		}
		if validAgent(m.name) != nil {
			d.warn(m.value, "it has no effect: no agent can be called %s", strconv.Quote(m.name))
		}
		if d.agents[m.name], err = d.part(m.value, false); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// mergeDefault merges the agent "default" into main. Fields of main win.
func mergeDefault(agents *node) {
	old, main := agents.get("default"), agents.get("main")
	if !old.isObject() || main != nil && !main.null() && !main.isObject() {
		return
	}
	agents.remove("default")
	if main.null() {
		agents.set("main", old)
		return
	}
	for _, m := range old.members {
		there := main.get(m.name)
		switch {
		case there.null():
			main.set(m.name, m.value)
		case there.isArray() && m.value.isArray():
			for _, item := range m.value.items {
				same := func(n *node) bool { return string(n.encode()) == string(item.encode()) }
				if !slices.ContainsFunc(there.items, same) {
					there.items = append(there.items, item)
				}
			}
		}
	}
}

func (d *document) fail(n *node, format string, args ...any) error {
	return positioned(d.file, d.text, n.offset, n.key, fmt.Sprintf(format, args...))
}

func (d *document) warn(n *node, format string, args ...any) {
	d.warnings = append(d.warnings, d.source(n).String()+": "+fmt.Sprintf(format, args...))
}

func (d *document) source(n *node) policy.Source {
	return policy.Source{File: d.file, Line: n.line, Key: n.key}
}

// names refuses names that are nearly one of the known ones.
func (d *document) names(n *node, known []string) error {
	for _, m := range n.members {
		if slices.Contains(known, m.name) {
			continue
		}
		if strings.ContainsFunc(m.name, unicode.IsControl) {
			return d.fail(m.value, "the name %s has control characters", strconv.Quote(m.name))
		}
		for _, k := range known {
			if near(m.name, k) || meant[m.name] == k {
				return d.fail(m.value, "%s is not known; %s is", quote(m.name), quote(k))
			}
		}
	}
	return nil
}

func (d *document) part(n *node, defaults bool) (part, error) {
	var p part
	if !n.isObject() {
		return p, d.fail(n, "it is not an object")
	}
	err := cmp.Or(d.names(n, partNames),
		setting(d, n, "security", policy.Securities, &p.settings.Security),
		setting(d, n, "ask", policy.Asks, &p.settings.Ask),
		setting(d, n, "askFallback", policy.Securities, &p.settings.AskFallback))
	for _, l := range lists {
		if err != nil {
			break
		}
		list := n.get(l.name)
		if defaults && l.action == policy.Allow && !list.null() {
			d.warn(list, "it is not read here: put it under agents.\"*\"")
			continue
		}
		var entries []entry
		entries, err = d.list(list, l.action)
		p.entries = append(p.entries, entries...)
	}
	return p, err
}

// setting reads a value of a closed set, if it is there.
func setting[T ~string](d *document, n *node, name string, set []T, s *policy.Setting[T]) error {
	v := n.get(name)
	if v.null() {
		return nil
	}
	text, ok := v.text()
	if !ok || !slices.Contains(set, T(text)) {
		return d.fail(v, "%s is none of %s", oneLine(string(v.encode()), 80), words.List(set))
	}
	*s = policy.Setting[T]{Value: T(text), Source: d.source(v)}
	return nil
}

// list reads the rules of a list. An invalid entry of an allowlist is left out, so it
// allows nothing. In the other lists it is an error, and the file allows nothing.
func (d *document) list(n *node, action policy.Action) ([]entry, error) {
	if n.null() {
		return nil, nil
	}
	bad := func(n *node, err error) error {
		if action == policy.Allow {
			d.warn(n, "it allows nothing: %v", err)
			return nil
		}
		return d.fail(n, "%v", err)
	}
	if !n.isArray() {
		return nil, bad(n, fmt.Errorf("it is not a list"))
	}
	var entries []entry
	for _, item := range n.items {
		if item.isObject() {
			if err := d.names(item, entryNames); err != nil {
				return nil, err
			}
		}
		rule, err := rule(item)
		if err == nil {
			err = usable(rule)
		}
		if err != nil {
			if err := bad(item, err); err != nil {
				return nil, err
			}
			continue
		}
		rule.Action, rule.Source = action, d.source(item)
		if Pathless(rule) {
			d.warn(item, pathlessText)
		}
		entries = append(entries, entry{rule, n.key, item})
	}
	return entries, nil
}

// rule reads an entry, which may be a pattern alone.
func rule(n *node) (policy.Rule, error) {
	var r policy.Rule
	var err error
	if s, ok := n.text(); ok {
		r.Pattern = strings.TrimSpace(s)
		return r, nil
	}
	if !n.isObject() {
		return r, fmt.Errorf("it is neither a pattern nor an entry")
	}
	for name, to := range map[string]*string{
		"id": &r.ID, "pattern": &r.Pattern, "argPattern": &r.ArgPattern, "sha256": &r.SHA256,
		"command": &r.Command, "reason": &r.Reason,
	} {
		v := n.get(name)
		if v.null() {
			continue
		}
		s, ok := v.text()
		if !ok || s == "" && name != "id" && name != "reason" {
			return r, fmt.Errorf("its %s is no text", name)
		}
		*to = s
	}
	r.Pattern = strings.TrimSpace(r.Pattern)
	if args := n.get("args"); !args.null() {
		if !args.isArray() {
			return r, fmt.Errorf("its args are not a list")
		}
		r.Args = []string{}
		for _, a := range args.items {
			s, ok := a.text()
			if !ok {
				return r, fmt.Errorf("its args are not all texts")
			}
			r.Args = append(r.Args, s)
		}
	}
	if r.Env, err = variables(n.get("env")); err != nil {
		return r, err
	}
	return exactCommand(r)
}

var envEntry = lazy.Regexp(policy.EnvEntryPattern)

// variables reads the variables of an entry.
func variables(n *node) ([]string, error) {
	if n.null() {
		return nil, nil
	}
	if !n.isArray() {
		return nil, fmt.Errorf("its env is not a list")
	}
	var list []string
	for _, item := range n.items {
		s, ok := item.text()
		if !ok || !envEntry().MatchString(s) {
			return nil, fmt.Errorf("its env has %s, which is no variable: write NAME, NAME=VALUE or NAME=sha256:HEX", oneLine(string(item.encode()), 80))
		}
		list = append(list, s)
	}
	return list, nil
}

// exactCommand parses a pattern that stands for a whole command.
func exactCommand(r policy.Rule) (policy.Rule, error) {
	digest, ok := strings.CutPrefix(r.Pattern, "=command:")
	if !ok {
		return r, nil
	}
	if len(digest) < 64 {
		// An attacker can make two commands whose digests share 64 bits.
		return r, fmt.Errorf("%d digits of a digest are too few to tell commands apart; allow the command anew", len(digest))
	}
	r.Pattern, r.Command = "", "sha256:"+digest
	return r, nil
}

var digestPattern = lazy.Regexp(`^[0-9a-f]{64}$`)

// usable reports what is wrong with a rule.
func usable(r policy.Rule) error {
	if digest, ok := strings.CutPrefix(r.Command, "sha256:"); ok && !digestPattern().MatchString(digest) {
		return fmt.Errorf("the digest of its command is not 64 hexadecimal digits")
	}
	if r.Command != "" {
		if r.Pattern != "" || r.Args != nil || r.ArgPattern != "" || r.SHA256 != "" {
			return fmt.Errorf("it has a command, and something else to match")
		}
		return nil
	}
	if r.SHA256 != "" && !digestPattern().MatchString(r.SHA256) {
		return fmt.Errorf("its sha256 is not 64 hexadecimal digits")
	}
	if strings.HasPrefix(r.ArgPattern, "sha256:argv:") {
		return fmt.Errorf("its argPattern is a digest, which is not known; allow the command anew")
	}
	if _, err := regexp.Compile(r.ArgPattern); err != nil {
		return fmt.Errorf("its argPattern is no regular expression: %w", err)
	}
	if r.Pattern == "" {
		return fmt.Errorf("it has no pattern")
	}
	return nil
}

// Pathless reports whether an allow rule allows nothing because its program is no path.
func Pathless(r policy.Rule) bool {
	program, _, _ := strings.Cut(r.Pattern, " ")
	return r.Action == policy.Allow && r.Command == "" && program != "*" && !strings.ContainsAny(program, `/\~`)
}

const pathlessText = "a name without a path is never allowed; write the path of the program"

// near reports whether a name is probably a misspelling of a known one: other case, one
// character more, less or changed, or the same characters in another order.
func near(name, known string) bool {
	return strings.EqualFold(name, known) || oneEdit(name, known) || oneEdit(known, name) || sameLetters(name, known)
}

// oneEdit reports whether a is b with one character added or changed.
func oneEdit(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	switch len(a) - len(b) {
	case 0:
		return i < len(a) && a[i+1:] == b[i+1:]
	case 1:
		return a[i+1:] == b[i:]
	}
	return false
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
