package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/corral-exec/corral/sandbox/engine"
)

// hashVersion changes when the same fields come to mean something else.
const hashVersion = 1

// Hash tells containers apart that are not alike: two configurations with the
// same hash can share one. It is the SHA-256, in hexadecimal, of [Canonical] of
// what the container is like.
//
// In it is what commands find there: the image, the runtime, the user, limits,
// tmpfs, and the workspace with its access and everything else that is mounted.
// Not in it is what differs from one container to the next and changes nothing
// for commands (names, labels, which private workspace, the warden and how it
// is spoken to), and what is given to each command (environment, PATH).
func (c Config) Hash() (string, error) {
	s, err := newSetup(c)
	if err != nil {
		return "", err
	}
	return s.hash, nil
}

// Canonical is what [Config.Hash] is computed of: one line of JSON.
func (c Config) Canonical() (string, error) {
	s, err := newSetup(c)
	if err != nil {
		return "", err
	}
	return string(canonical(s.plan())), nil
}

func hashOf(plan engine.Spec) string {
	sum := sha256.Sum256(canonical(plan))
	return hex.EncodeToString(sum[:])
}

// canonical is a container as JSON without spaces. Members of an object are in
// the order of their names; those that are zero, empty or false are left out, so
// that a field that is new changes nothing for who does not use it. Mounts and
// tmpfs are in the order of their targets: it says nothing. The order of any
// other list counts.
func canonical(plan engine.Spec) []byte {
	plan.Mounts, plan.Tmpfs = slices.Clone(plan.Mounts), slices.Clone(plan.Tmpfs)
	slices.SortStableFunc(plan.Mounts, func(a, b engine.Mount) int { return strings.Compare(a.Target, b.Target) })
	slices.SortStableFunc(plan.Tmpfs, func(a, b engine.Tmpfs) int { return strings.Compare(a.Target, b.Target) })
	b, err := json.Marshal(plan)
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
		m["Version"] = hashVersion
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
