package config

import (
	"slices"

	"github.com/corral-exec/corral/internal/json5"
)

// Rest is what a file with mistakes says beside them, for people who ask what else
// is wrong with it: nothing runs by it. It leaves out what a mistake is about, but
// not a text of a wrong form, which the part that it is for can judge. Nil: there is
// nothing, as Load says.
func Rest(path string) *Config {
	data, err := read(path)
	if err != nil {
		return nil
	}
	return rest(path, data)
}

func rest(name string, data []byte) *Config {
	doc, err := json5.Parse(data)
	if err != nil {
		return nil
	}
	for { // what was left out may be missing elsewhere
		m := check(doc)
		gone := slices.DeleteFunc(m.at, func(offset int) bool { return slices.Contains(m.form, offset) })
		if len(gone) == 0 {
			return build(name, doc, nil)
		}
		if !prune(doc.Root, gone) {
			return nil // it is the whole file
		}
	}
}

// prune takes out of a value what begins at one of the offsets, and reports
// whether there was any.
func prune(v *json5.Value, offsets []int) bool {
	size := len(v.Members) + len(v.Items)
	v.Members = slices.DeleteFunc(v.Members, func(m json5.Member) bool {
		return slices.Contains(offsets, m.Start) || slices.Contains(offsets, m.Value.Start)
	})
	v.Items = slices.DeleteFunc(v.Items, func(item *json5.Value) bool { return slices.Contains(offsets, item.Start) })
	pruned := len(v.Members)+len(v.Items) < size
	for _, m := range v.Members {
		pruned = prune(m.Value, offsets) || pruned
	}
	for _, item := range v.Items {
		pruned = prune(item, offsets) || pruned
	}
	return pruned
}
