package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
)

// Keywords of the schema that are not of JSON Schema.
const (
	keyUnit     = "x-unit"     // of a number
	keyEnforced = "x-enforced" // what enforces the key
	keyForm     = "x-form"     // what a string has to be, for people
)

// Bounds of the file beside those of its text.
const (
	maxList   = 1000 // elements of a list, and keys of a map
	maxString = 4096 // characters
)

// Schema is the JSON Schema (draft 2020-12) of the configuration file. It is
// what docs/reference/config.schema.json has.
func Schema() []byte {
	data, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		panic(err) // a mistake in this package
	}
	return append(data, '\n')
}

// schema is that of the file, made of the types.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	agent := sectionSchema(reflect.TypeFor[Agent]())
	entry := sectionSchema(reflect.TypeFor[Agent]())
	id := nonBlank(64)
	id.Pattern, id.Examples = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$", []any{"main"} // no agent can be called otherwise
	id.Description = "the agent whose entry it is"
	entry.Properties["id"] = id
	entry.PropertyOrder = append([]string{"id"}, entry.PropertyOrder...)
	entry.Required = []string{"id"}
	agent.Description = "What applies to every agent that does not say otherwise."

	root := closed("")
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "Corral configuration"
	root.Description = "The configuration of Corral, in JSON5."
	hint := &jsonschema.Schema{Type: "string", MaxLength: new(maxString), Description: "Where editors find this schema."}
	add(root, "$schema", hint)
	for _, name := range []string{"sandbox", "tools"} {
		add(root, name, agent.Properties[name])
	}
	agents := closed("Settings for agents.")
	add(agents, "defaults", agent)
	add(agents, "list", &jsonschema.Schema{Type: "array", Items: entry, MaxItems: new(maxList), Description: "Settings for one agent each."})
	add(root, "agents", agents)
	own := sectionSchema(reflect.TypeFor[Config]())
	for _, name := range own.PropertyOrder {
		add(root, name, own.Properties[name])
	}
	return root
})

func add(s *jsonschema.Schema, name string, p *jsonschema.Schema) {
	s.Properties[name] = p
	s.PropertyOrder = append(s.PropertyOrder, name)
}

// closed is an object that has no other keys.
func closed(doc string) *jsonschema.Schema {
	no := &jsonschema.Schema{Not: &jsonschema.Schema{}} // no value fits
	return &jsonschema.Schema{Type: "object", Description: doc, Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: no}
}

func sectionSchema(t reflect.Type) *jsonschema.Schema {
	s := closed("")
	for _, f := range fields(t) {
		var p *jsonschema.Schema
		if f.kind == section {
			p = sectionSchema(f.of)
		} else {
			p = valueSchema(f)
		}
		p.Description = f.tag.Get("doc")
		if unit := f.tag.Get("unit"); unit != "" {
			p.Description += " Unit: " + unitNames[unit] + "."
		}
		add(s, f.name, p)
	}
	return s
}

// unitNames are units for people.
var unitNames = map[string]string{"ms": "milliseconds", "s": "seconds", "h": "hours", "d": "days", "bytes": "bytes", "processors": "processors", "processes": "processes"}

// portPattern is a port of TCP, 0 to 65535.
const portPattern = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})"

func valueSchema(f field) *jsonschema.Schema {
	s := typeSchema(f.of)
	if min, ok := number(f, "min"); ok {
		s.Minimum = &min
	}
	if max, ok := number(f, "max"); ok {
		s.Maximum = &max
	}
	extra(s, keyUnit, f.tag.Get("unit"))
	extra(s, keyEnforced, f.tag.Get("by"))
	text := s
	if s.Items != nil {
		text = s.Items
	}
	for _, tag := range []string{"pattern", "item"} {
		if p := f.tag.Get(tag); p != "" {
			text.Pattern, text.Examples = strings.ReplaceAll(p, "PORT", portPattern), []any{f.tag.Get("like")}
			extra(text, keyForm, f.tag.Get("form"))
		}
	}
	s.Default = builtInValue(f)
	return s
}

// builtInValue is the default of a field, as JSON; nil if there is none.
func builtInValue(f field) json.RawMessage {
	text, ok := f.tag.Lookup("default")
	switch {
	case !ok:
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return json.RawMessage(strconv.Quote(text))
}

func extra(s *jsonschema.Schema, key, value string) {
	if value == "" {
		return
	}
	if s.Extra == nil {
		s.Extra = map[string]any{}
	}
	s.Extra[key] = value
}

// number reads a tag.
func number(f field, tag string) (float64, bool) {
	text, ok := f.tag.Lookup(tag)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // a mistake in this package
	}
	return n, true
}

// typeSchema is that of a type of values. It is a new one each time.
func typeSchema(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[bool]():
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.TypeFor[Always]():
		return &jsonschema.Schema{Type: "boolean", Enum: []any{true}}
	case reflect.TypeFor[int]():
		return &jsonschema.Schema{Type: "integer"}
	case reflect.TypeFor[string]():
		return nonBlank(maxString)
	case reflect.TypeFor[[]string]():
		return listOf(nonBlank(maxString))
	case reflect.TypeFor[[]Tool]():
		return listOf(typeSchema(t.Elem()))
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[Size]():
		return &jsonschema.Schema{Types: []string{"integer", "string"}, Minimum: new(float64(minSize)), Maximum: new(float64(maxSize)), Pattern: sizePattern,
			Examples: []any{"512m", "2g", unlimited}}
	case reflect.TypeFor[Count]():
		return &jsonschema.Schema{Types: []string{"number", "string"}, Pattern: "^unlimited$", Examples: []any{unlimited}}
	case reflect.TypeFor[Whole]():
		return &jsonschema.Schema{Types: []string{"integer", "string"}, Pattern: "^unlimited$", Examples: []any{unlimited}}
	case reflect.TypeFor[Senders]():
		return &jsonschema.Schema{Types: []string{"array", "object"}, Items: nonBlank(maxString), MaxItems: new(maxList),
			MaxProperties: new(maxList), AdditionalProperties: listOf(nonBlank(maxString))}
	case reflect.TypeFor[[]policy.Rule]():
		return listOf(ruleSchema())
	case reflect.TypeFor[map[string]Secret]():
		return &jsonschema.Schema{Type: "object", MaxProperties: new(64), AdditionalProperties: secretSchema()}
	case reflect.TypeFor[map[string]string]():
		return &jsonschema.Schema{Type: "object", MaxProperties: new(maxList), AdditionalProperties: &jsonschema.Schema{Type: "string", MaxLength: new(maxString)}}
	case reflect.TypeFor[map[string]policy.SafeBin]():
		return &jsonschema.Schema{Type: "object", MaxProperties: new(maxList), AdditionalProperties: safeBinSchema()}
	}
	if s, ok := sets[t]; ok {
		return &jsonschema.Schema{Type: "string", Enum: s}
	}
	panic(fmt.Sprintf("no schema for %v", t))
}

func nonBlank(most int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MaxLength: &most, Pattern: `\S`}
}

func listOf(item *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: item, MaxItems: new(maxList)}
}

// The types with a closed set of values.
var sets = map[reflect.Type][]any{
	reflect.TypeFor[corral.Host]():     setOf(corral.HostSandbox, corral.HostGateway, corral.HostNode),
	reflect.TypeFor[policy.Security](): setOf(policy.Securities...),
	reflect.TypeFor[policy.Ask]():      setOf(policy.AskOff, policy.AskOnMiss, policy.AskAlways),
	reflect.TypeFor[pathenv.EnvPath](): setOf(pathenv.EnvPathReject, pathenv.EnvPathReplace),
	reflect.TypeFor[Tool]():            setOf(toolNames...),
	reflect.TypeFor[Mode]():            setOf(ModeOff, ModeAll),
	reflect.TypeFor[policy.Enforce]():  setOf(policy.EnforceRequire, policy.EnforceTry, policy.EnforceOff),
	reflect.TypeFor[Scope]():           setOf(ScopeSession, ScopeAgent, ScopeShared),
	reflect.TypeFor[Engine]():          setOf[Engine]("auto", "docker", "containerd", "podman"),
	reflect.TypeFor[Driver]():          setOf[Driver]("auto", "fds", "frames", "exec"),
	reflect.TypeFor[Access]():          setOf[Access]("none", "ro", "rw"),
	reflect.TypeFor[Medium]():          setOf[Medium]("disk", "memory"),
	reflect.TypeFor[Login]():           setOf[Login]("always", LoginSnapshot),
	reflect.TypeFor[Approver]():        setOf(ApproverGateway, ApproverLocal),
	reflect.TypeFor[Chaining]():        setOf(ChainingNone, ChainingEach),
	reflect.TypeFor[Redirections]():    setOf(RedirectionsNone, RedirectionsHarmless),
	reflect.TypeFor[Level]():           setOf(ElevatedOff, ElevatedOn, ElevatedAsk, ElevatedFull),
	reflect.TypeFor[Profile]():         setOf(ProfileQwen, ProfileAsimi),
}

func setOf[T ~string](values ...T) []any {
	var list []any
	for _, v := range values {
		list = append(list, string(v))
	}
	return list
}

// actions are the keys of a rule that hold its pattern.
var actions = []policy.Action{policy.Allow, policy.Query, policy.Deny}

func ruleSchema() *jsonschema.Schema {
	s := closed("")
	for _, a := range actions {
		p := nonBlank(maxString)
		p.Description = "Pattern of the commands: a program and its first arguments."
		add(s, string(a), p)
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{string(a)}})
	}
	reason, args := nonBlank(maxString), nonBlank(maxString)
	reason.Description = "Why there is the rule, for people."
	args.Description = "Regular expression (RE2) over the arguments, joined by spaces."
	add(s, "reason", reason)
	add(s, "argPattern", args)
	exact := listOf(&jsonschema.Schema{Type: "string", MaxLength: new(maxString)})
	exact.Description = "All arguments that there are to be, exactly these; the pattern is then the program alone. [] is none."
	add(s, "args", exact)
	variable := nonBlank(maxString)
	variable.Pattern, variable.Examples = policy.EnvEntryPattern, []any{"GOFLAGS"}
	env := listOf(variable)
	env.Description = "Variables that a call may set for the program, of a rule that allows: NAME with any value, NAME=VALUE, or NAME=sha256: and the SHA-256 of the value in hex."
	add(s, "env", env)
	add(s, "runs", leewaySchema("Programs that the allowed one may run, where that is enforced: none, any, or a list of files, and of directories that end in a slash. Without it: what is known of the program.", "none", "any"))
	add(s, "writes", leewaySchema("Directories and files that it may write to beside the workspace, /tmp and /var/tmp, where that is enforced; or any. Without it: what is known of the program.", "any"))
	return s
}

func leewaySchema(doc string, words ...string) *jsonschema.Schema {
	path := nonBlank(maxString)
	path.Pattern, path.Examples = "^(/|~/)", []any{"/usr/bin/ssh"}
	s := listOf(path)
	s.Type, s.Types, s.Description = "", []string{"string", "array"}, doc
	s.Pattern = "^(" + strings.Join(words, "|") + ")$"
	for _, w := range words {
		s.Examples = append(s.Examples, w)
	}
	return s
}

func secretSchema() *jsonschema.Schema {
	file, env := nonBlank(maxString), nonBlank(128)
	file.Pattern, file.Examples = "^(/|~/)", []any{"/etc/corral/token"}
	file.Description = "File of this machine with the content, absolute or beginning with ~/."
	env.Pattern, env.Examples = "^[A-Za-z_][A-Za-z0-9_]*$", []any{"GH_TOKEN"}
	env.Description = "Variable of the gateway's environment with the content."
	s := closed("")
	add(s, "file", file)
	add(s, "env", env)
	s.OneOf = []*jsonschema.Schema{{Required: []string{"file"}}, {Required: []string{"env"}}}
	return s
}

func safeBinSchema() *jsonschema.Schema {
	s := closed("")
	for _, f := range []struct{ name, doc string }{
		{"minPositional", "How many arguments that are no flags it has at least."},
		{"maxPositional", "How many it has at most."},
	} {
		add(s, f.name, &jsonschema.Schema{Type: "integer", Minimum: new(0.0), Maximum: new(1000.0), Description: f.doc})
	}
	for _, f := range []struct{ name, doc string }{
		{"allowedValueFlags", "Flags that take a value, which is not a path."},
		{"allowedFlags", "Flags that take none."},
		{"deniedFlags", "Flags that are refused whatever else is allowed."},
	} {
		flag := nonBlank(maxString)
		flag.Pattern, flag.Examples = "^-", []any{"--lines"}
		p := listOf(flag)
		p.Description = f.doc
		add(s, f.name, p)
	}
	return s
}
