package pairing

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
)

// writeDelay is how long what is merely good to know may be in memory alone, and
// how soon a write that failed is tried again.
const writeDelay = 5 * time.Second

// How long a storage is waited for: while a caller waits for what was decided
// (message servers take seconds to elect a leader); and while none does, though one
// may wait for the registry.
const (
	patient = 15 * time.Second
	brief   = 2 * time.Second
)

// Options are those of a Registry. GatewayKey, and one of Dir and Bucket, are
// required.
type Options struct {
	Dir        string  // where the nodes are kept; for one Registry at a time
	Bucket     *Bucket // where they are kept instead, for several gateways; the Registry closes it
	GatewayKey string  // the public nkey that the gateway signs with
	// Changed is called with each change once it counts, one after the other. It
	// must not block, nor call what changes the registry or lists requests.
	Changed func(Change)
	Log     *slog.Logger // nil: none

	// For tests: to write without waiting for the disk, and codes that take no
	// time.
	unsynced bool
	code     func(nodeKey, gatewayKey string) string
}

// An Event is what happened to a key.
type Event string

// What happens to a key.
const (
	EventAsked     Event = "asked"
	EventRejected  Event = "rejected"
	EventPaired    Event = "paired"
	EventRenamed   Event = "renamed"
	EventRelabeled Event = "relabeled"
	EventRevoked   Event = "revoked"
	EventForgotten Event = "forgotten"
)

// A Change says what happened to a key. After EventPaired and EventRevoked
// connections with that key have to be made anew, so that they may do what they
// may now.
type Change struct {
	Event   Event
	Key     string
	Node    Node    // zero for EventAsked and EventRejected
	Request Request // zero for all others
}

// A Registry knows who is a node. Its methods may be called at any time.
type Registry struct {
	opts  Options
	now   atomic.Pointer[state]
	mu    sync.Mutex // held to change anything
	store storage    // nil once it is closed

	requests map[string]*Request // by key; never changed, but replaced
	dirty    bool                // what is in memory is not kept yet
	unkept   map[string]edit     // what makes it so, by what it is about
	timer    *time.Timer         // to write it

	end      chan struct{} // closed by Close
	followed sync.WaitGroup
}

// A storage keeps a state. One call at a time, which may have to wait for others,
// but not for longer than patience.
type storage interface {
	// write replaces what was read or written last. It is errStale if another
	// gateway did meanwhile.
	write(st *state, patience time.Duration) error
	// read returns what is kept, or nil if that is what was read or written last.
	read(patience time.Duration) (*state, error)
	// news tells when another gateway may have written. Nil: none can.
	news() <-chan struct{}
	close() error
}

var errStale = errors.New("the registry of nodes was changed by another gateway")

// An edit makes the next state of one. It may be made again, on another state.
type edit func(*state) (*state, error)

func same(st *state) (*state, error) { return st, nil }

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the registry of nodes is closed")

// Open opens the registry in a directory. It is an ErrConflict if another one has
// it open, and an ErrDenied or ErrUnavailable if what is there cannot be relied
// upon.
func Open(opts Options) (*Registry, error) {
	if err := validateGateway(opts.GatewayKey); err != nil {
		return nil, err
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.code == nil {
		opts.code = Code
	}
	store, st, err := openStorage(opts)
	if err != nil {
		return nil, err
	}
	r := &Registry{opts: opts, store: store, requests: map[string]*Request{}, unkept: map[string]edit{}, end: make(chan struct{})}
	r.now.Store(st)
	if news := store.news(); news != nil {
		r.followed.Go(func() { r.follow(news) })
	}
	return r, nil
}

func openStorage(opts Options) (storage, *state, error) {
	if b := opts.Bucket; b != nil {
		st, err := b.read(patient)
		if b.kv.Public() != opts.GatewayKey {
			err = corral.Errorf(corral.ErrInvalid, "give both the same key", "the bucket of the registry of nodes is for another gateway key than %s", opts.GatewayKey)
		}
		if err != nil {
			return nil, nil, errors.Join(err, b.close())
		}
		return b, st, nil
	}
	store, st, err := openStore(opts.Dir)
	if err != nil {
		return nil, nil, err
	}
	store.unsynced = opts.unsynced
	return store, st, nil
}

// Close writes what is not written, and lets another Registry have the directory. A
// closed Registry has no nodes.
func (r *Registry) Close() error {
	r.mu.Lock()
	if r.store == nil {
		r.mu.Unlock()
		return nil
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	var err error
	if r.dirty {
		err = r.update(same)
	}
	err = errors.Join(err, r.store.close())
	r.store = nil
	r.now.Store(newState())
	close(r.end)
	r.mu.Unlock()
	r.followed.Wait()
	return err
}

// Authorize says which node has a key. It takes no lock. A nil Registry, which is
// what Open returns with an error, knows no node.
func (r *Registry) Authorize(key string) (id string, ok bool) {
	if r == nil {
		return "", false
	}
	id, ok = r.now.Load().active[key]
	return id, ok
}

// Nodes returns all nodes by name, those that were revoked at the end.
func (r *Registry) Nodes() []Node {
	st := r.now.Load()
	list := make([]Node, 0, len(st.nodes))
	for _, n := range st.nodes {
		list = append(list, n.clone())
	}
	slices.SortFunc(list, func(a, b Node) int {
		return cmp.Or(a.RevokedAt.Compare(b.RevokedAt), strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return list
}

// Node finds a node by its id, its key, its name, or the beginning of an id that
// no other has. Of names, those of nodes that were not revoked count first.
func (r *Registry) Node(ref string) (Node, error) {
	n, err := r.now.Load().find(ref)
	if err != nil {
		return Node{}, err
	}
	return n.clone(), nil
}

func (s *state) find(ref string) (*Node, error) {
	ref = strings.TrimSpace(ref)
	if n := s.nodes[ref]; n != nil {
		return n, nil
	}
	if n := s.nodes[ID(ref)]; n != nil {
		return n, nil
	}
	fits := []func(*Node) bool{
		func(n *Node) bool { return n.active() && n.Name == ref },
		func(n *Node) bool { return n.active() && strings.HasPrefix(n.ID, ref) },
		func(n *Node) bool { return n.Name == ref },
		func(n *Node) bool { return strings.HasPrefix(n.ID, ref) },
	}
	for _, fit := range fits {
		var found []*Node
		for _, n := range s.nodes {
			if ref != "" && fit(n) {
				found = append(found, n)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return nil, corral.Errorf(corral.ErrInvalid, "name one of them by its whole id", "%s could be any of %d nodes", quote(ref), len(found))
		}
	}
	return nil, corral.Errorf(corral.ErrNotFound, "see which there are: corral nodes ls --all", "no node answers to %s", quote(ref))
}

// Rename gives a node another name. One that another node has, or that is the
// beginning of another's id, is an ErrConflict.
func (r *Registry) Rename(ref, name string) (Node, error) {
	if err := validateName(name); err != nil {
		return Node{}, err
	}
	return r.change(ref, EventRenamed, func(st *state, n *Node) error {
		n.Name = name
		return st.free(name, n.ID)
	})
}

// Relabel sets labels of a node, and removes those that are nil. Those that are
// not named stay.
func (r *Registry) Relabel(ref string, labels map[string]*string) (Node, error) {
	return r.change(ref, EventRelabeled, func(_ *state, n *Node) error {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		for k, v := range labels {
			if v == nil {
				delete(n.Labels, k)
			} else {
				n.Labels[k] = *v
			}
		}
		if len(n.Labels) == 0 {
			n.Labels = nil // as it is read again
		}
		return validateLabels(n.Labels)
	})
}

// free reports why a node cannot have a name.
func (s *state) free(name, self string) error {
	if id := s.holder(name, self); id != "" {
		return corral.Errorf(corral.ErrConflict, "choose another name, or rename or revoke that node", "the name %s is taken, or is the beginning of an id: node %s (%s)", name, id, s.nodes[id].Name)
	}
	return nil
}

// change changes a node, on disk before in memory. What edits it may be called
// again, with another node.
func (r *Registry) change(ref string, event Event, edit func(*state, *Node) error) (Node, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return Node{}, errClosed
	}
	var n Node
	err := r.update(func(st *state) (*state, error) {
		old, err := st.find(ref)
		if err != nil {
			return nil, err
		}
		n = old.clone()
		if err := edit(st, &n); err != nil {
			return nil, err
		}
		return st.with(n), nil
	})
	if err != nil {
		return Node{}, err
	}
	r.tell(Change{Event: event, Key: n.Key, Node: n.clone()})
	return n.clone(), nil
}

// with is the state with a node added or replaced.
func (s *state) with(n Node) *state {
	next := s.clone()
	c := n.clone()
	next.put(&c)
	return next
}

// Revoke ends that a key is a node, at once. With an error that is an
// ErrUnavailable it has ended too, but may be a node again to the next Registry,
// and still be one to other gateways, unless it could be written by then. To
// revoke again changes nothing.
func (r *Registry) Revoke(ref, by string) (Node, error) {
	if err := validateWho(by); err != nil {
		return Node{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return Node{}, errClosed
	}
	st := r.now.Load()
	old, err := st.find(ref)
	if err != nil {
		return Node{}, err
	}
	if !old.active() {
		// An earlier write may have failed.
		if r.dirty {
			err = r.update(same)
		}
		return old.clone(), err
	}
	n := old.clone()
	n.RevokedAt, n.RevokedBy = wall(time.Now()), by
	r.unkept["revoke "+n.ID] = func(st *state) (*state, error) {
		// One that was paired anew meanwhile, by a gateway that knew less, goes too.
		if now := st.nodes[n.ID]; now != nil && now.active() {
			revoked := now.clone()
			revoked.RevokedAt, revoked.RevokedBy = n.RevokedAt, n.RevokedBy
			st = st.with(revoked)
		}
		return st, nil
	}
	r.now.Store(st.with(n))
	r.tell(Change{Event: EventRevoked, Key: n.Key, Node: n.clone()})
	if err := r.update(same); err != nil {
		return n.clone(), corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "node %s is revoked, but that is not on disk yet: %w", n.Name, err)
	}
	return n.clone(), nil
}

// Forget removes a node that was revoked. Its key is unknown from then on.
func (r *Registry) Forget(ref string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return errClosed
	}
	var gone Node
	err := r.update(func(st *state) (*state, error) {
		n, err := st.find(ref)
		if err != nil {
			return nil, err
		}
		if n.active() {
			return nil, corral.Errorf(corral.ErrInvalid, "revoke it first", "cannot forget node %s: it is paired", n.Name)
		}
		gone = n.clone()
		next := st.clone()
		delete(next.nodes, n.ID)
		return next, nil
	})
	if err != nil {
		return err
	}
	r.tell(Change{Event: EventForgotten, Key: gone.Key, Node: gone})
	return nil
}

// Seen tells where a node connected from, if that is known, and what it says of
// itself. Who is no node is not noted.
func (r *Registry) Seen(key string, from netip.Addr, h Hello) error {
	if err := h.validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return errClosed
	}
	note := func(st *state) (*state, error) {
		id, ok := st.active[key]
		if !ok {
			return st, nil
		}
		if n := st.nodes[id].clone(); n.note(from, h) {
			return st.with(n), nil
		}
		return st, nil
	}
	st := r.now.Load()
	next, _ := note(st) // it has no error
	if next == st {
		return nil
	}
	r.unkept["seen "+key] = note
	r.now.Store(next)
	r.later()
	return nil
}

// note takes over what is new, and reports whether anything is.
func (n *Node) note(from netip.Addr, h Hello) (changed bool) {
	if from.IsValid() {
		a := from.Unmap().WithZone("").String()
		if changed = len(n.Addresses) == 0 || n.Addresses[0] != a; changed {
			others := slices.DeleteFunc(n.Addresses, func(b string) bool { return a == b })
			n.Addresses = append([]string{a}, others[:min(len(others), maxSeen-1)]...)
		}
	}
	if changed || n.OS != h.OS || n.Arch != h.Arch || n.Version != h.Version || !slices.Equal(n.Features, h.Features) {
		n.OS, n.Arch, n.Version, n.Features = h.OS, h.Arch, h.Version, slices.Clone(h.Features)
		return true
	}
	return false
}

// update makes the next state what counts, once it is kept. If that fails, what
// counted before does, and is written soon. mu is held.
func (r *Registry) update(step edit) error { return r.updateWithin(patient, step) }

func (r *Registry) updateWithin(patience time.Duration, step edit) error {
	for {
		next, err := step(r.now.Load())
		if err != nil {
			return err
		}
		err = r.store.write(next, patience)
		switch {
		case err == nil:
			r.now.Store(next)
			r.dirty = false
			clear(r.unkept)
			return nil
		case !errors.Is(err, errStale):
			r.later() // it may be kept nevertheless, and does not count
			return err
		}
		if err := r.reload(patience); err != nil {
			r.later()
			return err
		}
	}
}

// reload has what others wrote count, with what is not kept yet. mu is held.
func (r *Registry) reload(patience time.Duration) error {
	st, err := r.store.read(patience)
	if err != nil || st == nil {
		return err
	}
	for _, again := range r.unkept {
		if st, err = again(st); err != nil {
			return err
		}
	}
	old := r.now.Load()
	r.now.Store(st)
	for _, c := range changes(old, st) {
		if q := r.requests[c.Key]; q != nil && q.State == Pending && c.Event == EventPaired {
			r.settle(q, Approved, c.Node.ApprovedBy, c.Node.Name)
		}
		r.tell(c)
	}
	r.hearRejections(old, st)
	return nil
}

// changes are the differences of two states, as far as they concern connections.
func changes(old, now *state) (list []Change) {
	add := func(e Event, n *Node) { list = append(list, Change{Event: e, Key: n.Key, Node: n.clone()}) }
	for id, n := range now.nodes {
		before := old.nodes[id]
		was := before != nil && before.active()
		switch {
		case n.active() && (!was || !before.PairedAt.Equal(n.PairedAt)):
			add(EventPaired, n)
		case !n.active() && was:
			add(EventRevoked, n)
		case was && before.Name != n.Name:
			add(EventRenamed, n)
		case was && !maps.Equal(before.Labels, n.Labels):
			add(EventRelabeled, n)
		}
	}
	for id, n := range old.nodes {
		if now.nodes[id] != nil {
			continue
		}
		if n.active() { // by two steps, and the first was not seen
			add(EventRevoked, n)
		}
		add(EventForgotten, n)
	}
	return list
}

// follow takes what others wrote, until the registry is closed.
func (r *Registry) follow(news <-chan struct{}) {
	for {
		select {
		case <-r.end:
			return
		case <-news:
		}
		r.mu.Lock()
		if r.store != nil {
			if err := r.reload(brief); err != nil {
				r.opts.Log.Error("cannot read the registry of nodes; trying again", "error", err)
			}
		}
		r.mu.Unlock()
	}
}

// later has what is in memory written soon. mu is held.
func (r *Registry) later() {
	r.dirty = true
	if r.timer == nil {
		r.timer = time.AfterFunc(writeDelay, r.wake)
	}
}

func (r *Registry) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if r.store == nil || !r.dirty {
		return
	}
	if err := r.updateWithin(brief, same); err != nil {
		r.opts.Log.Error("cannot write the registry of nodes; trying again", "error", err)
	}
}

// tell passes on a change. mu is held.
func (r *Registry) tell(c Change) {
	r.opts.Log.Info("pairing", "event", c.Event, "key", c.Key, "node", c.Node.ID, "name", c.Node.Name)
	if r.opts.Changed != nil {
		r.opts.Changed(c)
	}
}

// wall is a time as it is written.
func wall(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
