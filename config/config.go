package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/policy"
)

// A Config is what a file says. It does not change, and may be used from any
// goroutine; what it returns is shared and must not be changed.
type Config struct {
	// File is where it is from, or would be if it were there.
	File string `json:"-"`
	// Err says why the file cannot be used; see Closed.
	Err error `json:"-"`

	Commands  Commands  `json:"commands" doc:"What people can say to an agent."`
	Approvals Approvals `json:"approvals" doc:"Approvals of commands."`
	Gateway   Gateway   `json:"gateway" doc:"Where a gateway listens, and for whom."`
	Node      Node      `json:"node" doc:"What this machine lets gateways do, if it is a node."`
	Nodes     Nodes     `json:"nodes" doc:"Where machines connect to that are nodes, or ask to be."`
	NATS      NATS      `json:"nats" doc:"A message server for nodes that is not the gateway's own."`

	doc    *json5.Document
	agents map[string]Agent
	order  []string // of agents
	others Agent    // what applies to agents that are not in the list
}

// Default is the configuration of no file.
func Default() *Config { return empty("") }

// empty is what Parse returns for a file with no key in it. There is nothing to
// check, and so no schema to make for that, which takes longer than all the rest.
func empty(name string) *Config {
	return build(name, known("{}"), nil)
}

// Parse reads the text of a file. The error is an *Error.
func Parse(name string, data []byte) (*Config, error) {
	doc, err := json5.Parse(data)
	if err != nil {
		syntax := err.(*json5.SyntaxError) //nolint:errorlint // as documented
		return nil, &Error{File: name, Mistakes: []Mistake{{Line: syntax.Line, Column: syntax.Column, Offset: syntax.Offset, Text: syntax.Text}}}
	}
	if m := check(doc); len(m.list) > 0 {
		slices.SortStableFunc(m.list, func(a, b Mistake) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
		if more := len(m.list) - maxMistakes; more > 0 {
			last := m.list[maxMistakes]
			m.list = append(m.list[:maxMistakes], Mistake{Line: last.Line, Column: last.Column, Text: fmt.Sprintf("and %d more mistakes from here on", more)})
		}
		return nil, &Error{File: name, Mistakes: m.list}
	}
	return build(name, doc, nil), nil
}

// strict is what applies while a file cannot be used.
const strict = `{
	sandbox: { mode: "all", required: true },
	tools: {
		deny: ["*"],
		exec: { security: "deny", ask: "always", askFallback: "deny" },
		elevated: { enabled: false },
	},
}`

// Closed is the configuration while a file cannot be used because of err, which
// is not nil: nothing may run, and every agent's Err says why.
func Closed(file string, err error) *Config {
	return build(file, known(strict), err)
}

// known parses a text of this package.
func known(text string) *json5.Document {
	doc, err := json5.Parse([]byte(text))
	if err != nil {
		panic(err) // a mistake in this package
	}
	return doc
}

func build(file string, doc *json5.Document, err error) *Config {
	c := &Config{File: file, Err: err, doc: doc, agents: map[string]Agent{}}
	c.resolver(-1).fill(c)
	c.others = c.resolve(-1, "")
	if list := doc.Root.Find(listPath); list != nil {
		for i, entry := range list.Items {
			id := entry.Get("id").String
			c.agents[id] = c.resolve(i, id)
			c.order = append(c.order, id)
		}
	}
	return c
}

var listPath = json5.Path{{Key: "agents"}, {Key: "list"}}

// Agents are the agents that the file has settings for, in its order.
func (c *Config) Agents() []string { return slices.Clone(c.order) }

// Agent is what applies to an agent, whether or not the file names it.
func (c *Config) Agent(id string) Agent {
	a, ok := c.agents[id]
	if !ok {
		a = c.others
		a.ID = id
	}
	return a
}

// Version names the text of the file: another text has another. It is that of {} if
// there is no file.
func (c *Config) Version() string { return version(c.doc.Data) }

func version(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// A Value is what a key of the file comes to.
type Value struct {
	Key string `json:"key"`
	// Value is null if the key is not set and has no default.
	Value  json.RawMessage `json:"value"`
	Source policy.Source   `json:"source"`
}

// Get returns what a key comes to, such as agents.list[0].tools.exec.node: what
// it is set to, or else what applies in its place. Of a section it is what the
// file has of it. The empty key is the whole file.
func (c *Config) Get(key string) (Value, error) {
	path, err := json5.ParsePath(key)
	if err != nil {
		return Value{}, corral.Errorf(corral.ErrInvalid, "write it like agents.list[0].tools.exec.node", "%w", err)
	}
	s, err := lookup(path)
	if err != nil {
		return Value{}, corral.Errorf(corral.ErrInvalid, "corral config schema lists the keys", "%w", err)
	}
	found := Value{Key: key, Value: json.RawMessage("null"), Source: policy.Source{Name: builtIn}}
	if s.Default != nil {
		found.Value = s.Default
	}
	for _, p := range widening(path) {
		if v := c.doc.Root.Find(p); v != nil {
			found.Value, found.Source = v.JSON(), c.source(p)
			break
		}
	}
	return found, nil
}

// Values are what every key comes to for an agent, in the order of the schema. The
// key of each says where to set it: for that agent alone if the file has an entry
// for it, and otherwise for all agents.
func (c *Config) Values(agent string) []Value {
	var list []Value
	add := func(at json5.Path) {
		v, err := c.Get(at.String())
		if err != nil {
			panic(err) // a mistake in this package
		}
		list = append(list, v)
	}
	root := schema()
	defaults := root.Properties["agents"].Properties["defaults"]
	entry := slices.Index(c.order, agent)
	eachKey(defaults, nil, func(rest json5.Path) {
		common := slices.Concat(defaultsPath, rest)
		switch {
		case entry >= 0:
			add(slices.Concat(listPath.Item(entry), rest))
		case c.doc.Root.Find(common) != nil || property(root, rest[0].Key) == nil:
			add(common)
		default:
			add(rest)
		}
	})
	for _, name := range root.PropertyOrder {
		if p := root.Properties[name]; name != "$schema" && name != "agents" && property(defaults, name) == nil {
			eachKey(p, json5.Path{}.Key(name), add)
		}
	}
	return list
}

// eachKey goes over the keys in a section that are no sections.
func eachKey(s *jsonschema.Schema, at json5.Path, do func(json5.Path)) {
	if len(s.Properties) == 0 || s.OneOf != nil {
		do(at)
		return
	}
	for _, name := range s.PropertyOrder {
		eachKey(s.Properties[name], at.Key(name), do)
	}
}

// widening are the path of a key and those of the keys that apply where it is
// not set.
func widening(path json5.Path) []json5.Path {
	paths := []json5.Path{path}
	if len(path) < 3 || path[0].Key != "agents" {
		return paths
	}
	var rest json5.Path
	switch {
	case path[1].Key == "defaults":
		rest = path[2:]
	case len(path) > 3:
		rest = path[3:]
		paths = append(paths, append(slices.Clone(defaultsPath), rest...))
	}
	if len(rest) > 0 {
		paths = append(paths, rest)
	}
	return paths
}

var defaultsPath = json5.Path{{Key: "agents"}, {Key: "defaults"}}
