package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// canonicalVersion changes when the same fields come to mean something else.
const canonicalVersion = 1

// Canonical is a container as JSON without spaces. Members of an object are in
// the order of their names; those that are zero, empty or false are left out, so
// that a field that is new changes nothing for who does not use it. Mounts and
// tmpfs are in the order of their targets: it says nothing. The order of any
// other list counts.
func (s Spec) Canonical() []byte {
	s.Mounts, s.Tmpfs = slices.Clone(s.Mounts), slices.Clone(s.Tmpfs)
	slices.SortStableFunc(s.Mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	slices.SortStableFunc(s.Tmpfs, func(a, b Tmpfs) int { return strings.Compare(a.Target, b.Target) })
	b, err := json.Marshal(s)
	if err != nil { // strings and numbers
		panic(fmt.Sprintf("cannot write a container down: %v", err))
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // as they are written
	var tree any
	if err := dec.Decode(&tree); err != nil {
		panic(fmt.Sprintf("cannot read a container: %v", err))
	}
	tree, _ = withoutEmpty(tree)
	if m, ok := tree.(map[string]any); ok {
		m["Version"] = canonicalVersion
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil { // maps are written sorted
		panic(fmt.Sprintf("cannot write a container down: %v", err))
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// withoutEmpty leaves out members of objects that say nothing; empty reports
// that v is one.
func withoutEmpty(v any) (_ any, empty bool) {
	switch v := v.(type) {
	case nil:
		return v, true
	case bool:
		return v, !v
	case string:
		return v, v == ""
	case json.Number:
		return v, v == "0"
	case []any:
		for i := range v {
			v[i], _ = withoutEmpty(v[i])
		}
		return v, len(v) == 0
	case map[string]any:
		for name, member := range v {
			member, none := withoutEmpty(member)
			if none {
				delete(v, name)
				continue
			}
			v[name] = member
		}
		return v, len(v) == 0
	}
	return v, false
}
