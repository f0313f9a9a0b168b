package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/policy"
)

// builtIn is the name of the source of defaults.
const builtIn = "default"

// A resolver finds the values of keys on the levels that apply to an agent.
type resolver struct {
	c      *Config
	levels []json5.Path // from the outermost
}

// resolver is that of an entry of agents.list; -1 for none.
func (c *Config) resolver(entry int) *resolver {
	r := &resolver{c: c, levels: []json5.Path{nil, defaultsPath}}
	if entry >= 0 {
		r.levels = append(r.levels, listPath.Item(entry))
	}
	return r
}

func (c *Config) resolve(entry int, id string) Agent {
	a := Agent{ID: id, Err: c.Err}
	c.resolver(entry).fill(&a)
	return a
}

// source is where a key is written, which is there.
func (c *Config) source(at json5.Path) policy.Source {
	if c.Err != nil {
		return policy.Source{Name: "closed: " + FirstLine(c.Err)}
	}
	return policy.Source{File: c.File, Line: c.doc.Position(start(c.doc.Root, at)).Line, Key: at.String()}
}

// start is where a key or an element begins.
func start(root *json5.Value, at json5.Path) int {
	if len(at) > 0 {
		if last := at[len(at)-1]; last.Key != "" {
			return root.Find(at[:len(at)-1]).Member(last.Key).Start
		}
	}
	return root.Find(at).Start
}

// fill sets the fields of the struct that to points to.
func (r *resolver) fill(to any) { r.section(reflect.ValueOf(to).Elem(), nil) }

func (r *resolver) section(to reflect.Value, at json5.Path) {
	for _, f := range fields(to.Type()) {
		key, field := at.Key(f.name), to.Field(f.i)
		switch f.kind {
		case section:
			r.section(field, key)
		case single:
			all := r.settings(f, key)
			set(field, all[len(all)-1])
		case layered:
			list := reflect.MakeSlice(field.Type(), 0, 0)
			for _, s := range r.settings(f, key) {
				if s.source.Name == builtIn && f.tag.Get("default") == "" {
					continue
				}
				one := reflect.New(field.Type().Elem()).Elem()
				set(one, s)
				list = reflect.Append(list, one)
			}
			field.Set(list)
		case rules:
			field.Set(reflect.ValueOf(r.rules(key)))
		case merged:
			field.Set(r.merged(f, key))
		}
	}
}

// A found value of a key, and where it is from.
type found struct {
	value  reflect.Value
	source policy.Source
}

// set makes a policy.Setting of it.
func set(setting reflect.Value, f found) {
	setting.FieldByName("Value").Set(f.value)
	setting.FieldByName("Source").Set(reflect.ValueOf(f.source))
}

// settings are those of every level that has the key, from the outermost; if
// none has it, the default.
func (r *resolver) settings(f field, key json5.Path) []found {
	var list []found
	for at, v := range r.each(key) {
		value, err := decode(v.JSON(), f)
		if err != nil {
			panic(err) // it was checked
		}
		list = append(list, found{value, r.c.source(at)})
	}
	if list == nil {
		value := reflect.Zero(f.of)
		if text := builtInValue(f); text != nil {
			var err error
			if value, err = decode(text, f); err != nil {
				panic(err) // a mistake in a tag
			}
		}
		list = []found{{value, policy.Source{Name: builtIn}}}
	}
	return list
}

// each goes over the levels that have the key.
func (r *resolver) each(key json5.Path) func(yield func(json5.Path, *json5.Value) bool) {
	return func(yield func(json5.Path, *json5.Value) bool) {
		for _, level := range r.levels {
			at := slices.Concat(level, key)
			if v := r.c.doc.Root.Find(at); v != nil && !yield(at, v) {
				return
			}
		}
	}
}

// decode reads the value of a field.
func decode(data []byte, f field) (reflect.Value, error) {
	to := reflect.New(f.of)
	if f.of != reflect.TypeFor[time.Duration]() {
		err := json.Unmarshal(data, to.Interface())
		return to.Elem(), err
	}
	var n float64
	if err := json.Unmarshal(data, &n); err != nil {
		return to.Elem(), err
	}
	d := time.Duration(n * float64(units[f.tag.Get("unit")]))
	if n > 0 && d <= 0 { // what is more than nothing is never none
		d = 1
	}
	to.Elem().SetInt(int64(d))
	return to.Elem(), nil
}

var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "h": time.Hour, "d": 24 * time.Hour}

// rules are those of every level, each with its own line.
func (r *resolver) rules(key json5.Path) []policy.Rule {
	list := []policy.Rule{}
	for at, v := range r.each(key) {
		for i, item := range v.Items {
			rule := policy.Rule{Source: r.c.source(at.Item(i))}
			for _, action := range actions {
				if pattern := item.Get(string(action)); pattern != nil {
					rule.Action, rule.Pattern = action, pattern.String
				}
			}
			if reason := item.Get("reason"); reason != nil {
				rule.Reason = reason.String
			}
			if args := item.Get("argPattern"); args != nil {
				rule.ArgPattern = args.String
			}
			if args := item.Get("args"); args != nil {
				rule.Args = texts(args)
			}
			if env := item.Get("env"); env != nil {
				rule.Env = append(rule.Env, texts(env)...)
			}
			rule.Runs, rule.Writes = leeway(item.Get("runs")), leeway(item.Get("writes"))
			list = append(list, rule)
		}
	}
	return list
}

// leeway is a list of paths, "none", or "any"; nil if there is none.
func leeway(v *json5.Value) []string {
	switch {
	case v == nil:
		return nil
	case v.Kind == json5.String && v.String == policy.RunsAny:
		return []string{policy.RunsAny}
	}
	return texts(v)
}

// texts are the elements of a list of strings.
func texts(v *json5.Value) []string {
	list := make([]string, len(v.Items))
	for i, item := range v.Items {
		list[i] = item.String
	}
	return list
}

// merged has the members of every level; of one name, the innermost.
func (r *resolver) merged(f field, key json5.Path) reflect.Value {
	all := reflect.MakeMap(f.of)
	for _, v := range r.each(key) {
		for _, m := range v.Members {
			one := reflect.New(f.of.Elem())
			if err := json.Unmarshal(m.Value.JSON(), one.Interface()); err != nil {
				panic(fmt.Sprintf("%s of %s: %v", m.Name, key, err)) // it was checked
			}
			all.SetMapIndex(reflect.ValueOf(m.Name), one.Elem())
		}
	}
	return all
}
