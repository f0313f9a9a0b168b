package config

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// more notes what a schema cannot say, of what fits the schema.
func (m *mistakes) more() {
	root := m.doc.Root
	m.values(root, reflect.TypeFor[Config](), nil)
	m.values(root, reflect.TypeFor[Agent](), nil)
	if defaults := root.Find(defaultsPath); defaults != nil {
		m.values(defaults, reflect.TypeFor[Agent](), defaultsPath)
	}
	list := root.Find(listPath)
	if list == nil {
		return
	}
	ids := map[string]int{}
	for i, entry := range list.Items {
		at := listPath.Item(i)
		m.values(entry, reflect.TypeFor[Agent](), at)
		id := entry.Get("id")
		if id == nil || m.in(id) {
			continue
		}
		if id.String == "default" { // see session.ValidateAgent
			m.add(id.Start, at.Key("id"), "no agent is called default; agents.defaults is what applies to all, and main is the agent of those who name none")
		}
		if first, twice := ids[id.String]; twice {
			m.add(id.Start, at.Key("id"), "the agent %q is there already, as agents.list[%d]", shorten(id.String), first)
		} else {
			ids[id.String] = i
		}
	}
}

// values checks the values of a section's keys.
func (m *mistakes) values(v *json5.Value, t reflect.Type, at json5.Path) {
	for _, f := range fields(t) {
		value, key := v.Get(f.name), at.Key(f.name)
		switch {
		case value == nil:
		case f.kind == section:
			m.values(value, f.of, key)
		case f.kind == rules:
			for i, rule := range value.Items {
				m.rule(rule, key.Item(i))
			}
		case f.of == reflect.TypeFor[map[string]Secret]():
			m.secrets(value, key)
		case f.of == reflect.TypeFor[map[string]string]():
			env := map[string]string{}
			for _, member := range value.Members {
				env[member.Name] = member.Value.String
			}
			if err := pathenv.CheckSandbox("these variables", env); err != nil {
				m.add(value.Start, key, "%v", err)
			}
		case f.name == "pathPrepend":
			m.directories(value, key)
		case f.name == "ports":
			m.ports(value, key)
		case f.name == "timezone":
			m.timeZone(value, key)
		case (f.kind == single || f.kind == layered) && !m.in(value):
			if _, err := decode(value.JSON(), f); err != nil {
				m.add(value.Start, key, "%v", err)
			}
		}
	}
}

func (m *mistakes) rule(v *json5.Value, at json5.Path) {
	if v.Kind != json5.Object {
		return
	}
	patterns := 0
	for _, action := range actions {
		if v.Get(string(action)) != nil {
			patterns++
		}
	}
	if patterns != 1 {
		m.add(v.Start, at, "a rule has one of the keys allow, ask and deny, and this one has %d of them", patterns)
	}
	if args := v.Get("args"); args != nil {
		for _, action := range actions {
			if p := v.Get(string(action)); p != nil && len(policy.Rule{Pattern: p.String}.Exactly().Args) > 0 {
				m.add(args.Start, at.Key("args"), "args are all arguments, and the pattern has some as well; write them here alone")
			}
		}
	}
	if env := v.Get("env"); env != nil && v.Get(string(policy.Allow)) == nil {
		m.add(env.Start, at.Key("env"), "only a rule that allows has variables; under the others they change nothing")
	}
	for _, name := range []string{"runs", "writes"} {
		if leeway := v.Get(name); leeway != nil && v.Get("allow") == nil {
			m.add(leeway.Start, at.Key(name), "only a rule that allows says what its program may do; leave it out")
		}
	}
	if args := v.Get("argPattern"); args != nil && !m.in(args) {
		if _, err := regexp.Compile(args.String); err != nil {
			m.add(args.Start, at.Key("argPattern"), "it is no regular expression (RE2): %v", err)
		}
	}
}

func (m *mistakes) secrets(v *json5.Value, at json5.Path) {
	for _, member := range v.Members {
		switch key := at.Key(member.Name); {
		case !secrets.ValidName(member.Name):
			m.add(member.Start, key, "a secret has a name of letters, digits, '_', '.' and '-'")
		case member.Value.Kind == json5.Object && (member.Value.Get("file") == nil) == (member.Value.Get("env") == nil):
			m.add(member.Value.Start, key, "a secret has one of the keys file and env")
		}
	}
}

// directories checks each element alone, for its place. Which directory is the
// home makes no difference.
func (m *mistakes) directories(v *json5.Value, at json5.Path) {
	for i, item := range v.Items {
		if item.Kind != json5.String {
			continue
		}
		if _, err := pathenv.PrependDirs([]string{item.String}, "/"); err != nil {
			m.add(item.Start, at.Item(i), "%v", err)
		}
	}
}

// ports checks the numbers: a range that has none would let nobody through, and not say so.
func (m *mistakes) ports(v *json5.Value, at json5.Path) {
	for i, item := range v.Items {
		if m.in(item) {
			continue
		}
		if _, _, ok := PortRange(item.String); !ok {
			m.add(item.Start, at.Item(i), "%q is no port or range of ports; they go from 1 to 65535, the lower one first", item.String)
		}
	}
}

// PortRange reads an item of node.ports: a port, or the first and the last of several.
func PortRange(text string) (from, to int, ok bool) {
	first, last, some := strings.Cut(text, "-")
	if !some {
		last = first
	}
	from, ferr := strconv.Atoi(first)
	to, terr := strconv.Atoi(last)
	return from, to, ferr == nil && terr == nil && 1 <= from && from <= to && to <= 65535
}
