package recent

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestMemoryIsBounded(t *testing.T) {
	m := New[string](maxRemembered)
	id := func(i int) string { return fmt.Sprint("id", i) }
	for i := range 3 * maxRemembered {
		m.Put(id(i), "x")
	}
	if len(m.values) != maxRemembered || len(m.order) != maxRemembered {
		t.Errorf("%d IDs in %d slots, want %d", len(m.values), len(m.order), maxRemembered)
	}
	if has(m, id(2*maxRemembered-1)) || !has(m, id(2*maxRemembered)) || !has(m, id(3*maxRemembered-1)) {
		t.Error("not the latest are kept")
	}
	m.Put("", "")
	if has(m, "") {
		t.Error("no ID is remembered")
	}
}

func TestMemoryOfPutAndForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New[string](maxRemembered)
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			if rapid.Bool().Draw(t, "forget") {
				m.Forget(id)
			} else {
				m.Put(id, id)
			}
			if at, ok := m.Get(id); ok && at != id {
				t.Fatalf("%s is remembered as %s", id, at)
			}
		}
		for i := range maxRemembered { // whatever happened before, the bound holds
			m.Put(fmt.Sprint(i), "")
		}
		if len(m.values) > maxRemembered || len(m.order) > maxRemembered || !has(m, "0") {
			t.Fatalf("%d IDs in %d slots", len(m.values), len(m.order))
		}
	})
}

const maxRemembered = 64

func has(m *Map[string], id string) bool {
	_, ok := m.Get(id)
	return ok
}
