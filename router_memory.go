package corral

import (
	"context"
	"sync"
)

// maxRemembered bounds a Router's memory. An older process is found by asking
// every host.
const maxRemembered = 4096

// origin is where a Router started a process, and what it said about that.
type origin struct {
	host   Host
	node   string
	notice string
}

// memory remembers the origins of the latest processes. The zero memory is
// empty. An ID is evicted once maxRemembered others were put after it, or
// earlier if it was forgotten and put again meanwhile.
type memory struct {
	mu     sync.Mutex
	origin map[string]origin
	order  []string // a ring of the IDs put, the oldest at next once it is full
	next   int
}

func (m *memory) put(id string, at origin) {
	if id == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.origin == nil {
		m.origin = make(map[string]origin)
	}
	_, known := m.origin[id]
	m.origin[id] = at
	switch {
	case known:
	case len(m.order) < maxRemembered:
		m.order = append(m.order, id)
	default:
		delete(m.origin, m.order[m.next])
		m.order[m.next] = id
		m.next = (m.next + 1) % maxRemembered
		m.origin[id] = at // in case the evicted slot was an earlier one of this very ID
	}
}

func (m *memory) get(id string) (origin, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.origin[id]
	return at, ok
}

func (m *memory) has(id string) bool {
	_, ok := m.get(id)
	return ok
}

func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.origin, id)
}

// idLocks is a lock for each ID. It holds no memory for IDs that nobody locks
// or waits for. The zero idLocks is ready.
type idLocks struct {
	mu   sync.Mutex
	held map[string]*idLock
}

type idLock struct {
	turn  chan struct{} // holds a token while somebody has the lock
	users int           // who has it or waits for it; guarded by idLocks.mu
}

// lock waits for the lock of id until ctx ends, and returns how to let it go.
func (l *idLocks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[string]*idLock)
	}
	k := l.held[id]
	if k == nil {
		k = &idLock{turn: make(chan struct{}, 1)}
		l.held[id] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, id)
		}
	}
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
