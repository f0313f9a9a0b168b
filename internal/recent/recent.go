// Package recent remembers something of the latest IDs, and forgets the oldest.
package recent

import "sync"

// A Map has a value for each of the latest IDs: one is evicted once Size others were
// put after it, or earlier if it was forgotten and put again meanwhile. It is safe for
// use by several goroutines.
type Map[V any] struct {
	size   int
	mu     sync.Mutex
	values map[string]V
	order  []string // a ring of the IDs put, the oldest at next once it is full
	next   int
}

// New returns a Map of at most size IDs.
func New[V any](size int) *Map[V] { return &Map[V]{size: size, values: map[string]V{}} }

// Put remembers a value. The empty ID is none.
func (m *Map[V]) Put(id string, v V) {
	if id == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.values[id]
	m.values[id] = v
	switch {
	case known:
	case len(m.order) < m.size:
		m.order = append(m.order, id)
	default:
		delete(m.values, m.order[m.next])
		m.order[m.next] = id
		m.next = (m.next + 1) % m.size
		m.values[id] = v // in case the evicted slot was an earlier one of this very ID
	}
}

// Get returns the value of an ID that is remembered.
func (m *Map[V]) Get(id string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[id]
	return v, ok
}

// Forget forgets an ID.
func (m *Map[V]) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, id)
}
