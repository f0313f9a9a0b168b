package corral

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	id := func(i int) string { return fmt.Sprint("id", i) }
	for i := range 3 * maxRemembered {
		m.put(id(i), origin{host: HostGateway})
	}
	if len(m.origin) != maxRemembered || len(m.order) != maxRemembered {
		t.Errorf("%d IDs in %d slots, want %d", len(m.origin), len(m.order), maxRemembered)
	}
	if m.has(id(2*maxRemembered-1)) || !m.has(id(2*maxRemembered)) || !m.has(id(3*maxRemembered-1)) {
		t.Error("not the latest are kept")
	}
	m.put("", origin{})
	if m.has("") {
		t.Error("no ID is remembered")
	}
}

func TestMemoryOfPutAndForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m memory
		for range rapid.IntRange(0, 50).Draw(t, "rounds") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			if rapid.Bool().Draw(t, "forget") {
				m.forget(id)
			} else {
				m.put(id, origin{node: id})
			}
			if at, ok := m.get(id); ok && at.node != id {
				t.Fatalf("%s is remembered as %s", id, at.node)
			}
		}
		for i := range maxRemembered { // whatever happened before, the bound holds
			m.put(fmt.Sprint(i), origin{})
		}
		if len(m.origin) > maxRemembered || len(m.order) > maxRemembered || !m.has("0") {
			t.Fatalf("%d IDs in %d slots", len(m.origin), len(m.order))
		}
	})
}

func TestIDLocks(t *testing.T) {
	var l idLocks
	unlock, err := l.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.lock(t.Context(), "b")
	if err != nil {
		t.Fatal("another ID waits:", err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal("the lock was given twice:", err)
	}
	unlock()

	var wg sync.WaitGroup
	n := 0
	for range 50 {
		wg.Go(func() {
			unlock, err := l.lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			n++
		})
	}
	wg.Wait()
	if n != 50 || len(l.held) != 0 {
		t.Errorf("counted %d of 50, %d locks left", n, len(l.held))
	}
}
