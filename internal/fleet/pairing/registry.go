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

// writeDelay bounds how long unimportant changes are in memory alone, and is the delay
// before a failed write is tried again.
const writeDelay = 5 * time.Second

// How long to wait for a storage: with a caller who waits for a decision (message
// servers take seconds to elect a leader), and without one, though a caller may wait
// for the registry's lock.
const (
	patient = 15 * time.Second
	brief   = 2 * time.Second
)

// Options configure a Registry. GatewayKey, and one of Dir and Bucket, are required.
type Options struct {
	Dir        string  // directory of the nodes; for one Registry at a time
	Bucket     *Bucket // keeps them instead, for several gateways; the Registry closes it
	GatewayKey string  // the public nkey that the gateway signs with
	// Changed is called with each change once it counts, one after the other. It must
	// not block, change the registry or list requests.
	Changed func(Change)
	Log     *slog.Logger // nil: none

	// For tests: write without waiting for the disk, and make codes in no time.
	unsynced bool
	code     func(nodeKey, gatewayKey string) string
}

// An Event is a kind of change of a key.
type Event string

// The events.
const (
	EventAsked     Event = "asked"
	EventRejected  Event = "rejected"
	EventPaired    Event = "paired"
	EventRenamed   Event = "renamed"
	EventRelabeled Event = "relabeled"
	EventRevoked   Event = "revoked"
	EventForgotten Event = "forgotten"
)

// A Change is an event of a key. After EventPaired and EventRevoked the connections of
// that key have to be made anew, so that they get its new permissions.
type Change struct {
	Event   Event
	Key     string
	Node    Node    // zero for EventAsked and EventRejected
	Request Request // zero for all others
}

// A Registry is the list of nodes. Its methods may be called at any time.
type Registry struct {
	opts  Options
	now   atomic.Pointer[state]
	mu    sync.Mutex // held to change anything
	store storage    // nil once it is closed

	requests map[string]*Request // by key; replaced, and never modified
	dirty    bool                // memory has changes that are not stored
	unkept   map[string]edit     // these changes, by subject
	timer    *time.Timer         // to write it

	end      chan struct{} // closed by Close
	followed sync.WaitGroup
}

// A storage keeps a state. Make one call at a time. A call may wait for other gateways,
// but not longer than patience.
type storage interface {
	// write replaces the state that was read or written last. The error is errStale if
	// another gateway has replaced it meanwhile.
	write(st *state, patience time.Duration) error
	// read returns the stored state, or nil if it was read or written last.
	read(patience time.Duration) (*state, error)
	// news signals that another gateway may have written. Nil: there is none.
	news() <-chan struct{}
	close() error
}

var errStale = errors.New("the registry of nodes was changed by another gateway")

// How often a change is tried that is stale although there is nothing new to read.
const (
	staleTries = 5
	stalePause = 50 * time.Millisecond
)

// errHidden: the message server has a change and does not show it.
var errHidden = corral.Errorf(corral.ErrDenied, "see who else can write to the message server",
	"cannot trust the registry of nodes at the message server: it shows a list that was replaced")

// An edit makes the next state of a state. It may be repeated on another state.
type edit func(*state) (*state, error)

func same(st *state) (*state, error) { return st, nil }

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the registry of nodes is closed")

// Open opens the registry in a directory. It is an ErrConflict if another program has
// it open, and an ErrDenied or ErrUnavailable if the content cannot be trusted.
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

// Close writes pending changes and releases the directory. A closed Registry has no
// nodes.
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

// Authorize returns the node of a key. It takes no lock. A nil Registry, which Open
// returns with an error, has no nodes.
func (r *Registry) Authorize(key string) (id string, ok bool) {
	if r == nil {
		return "", false
	}
	id, ok = r.now.Load().active[key]
	return id, ok
}

// Nodes returns all nodes by name, revoked ones at the end.
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

// Node finds a node by its id, its key, its name, or an unambiguous prefix of its id.
// Names of active nodes come before names of revoked ones.
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

// Rename gives a node another name. A name that another node has, or that is the
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

// Relabel sets labels of a node, and removes those that are nil. Other labels stay.
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
			n.Labels = nil // the form in which it is read again
		}
		return validateLabels(n.Labels)
	})
}

// free returns an error if a node cannot have a name.
func (s *state) free(name, self string) error {
	if id := s.holder(name, self); id != "" {
		return corral.Errorf(corral.ErrConflict, "choose another name, or rename or revoke that node", "the name %s is taken, or is the beginning of an id: node %s (%s)", name, id, s.nodes[id].Name)
	}
	return nil
}

// change changes a node, on disk before in memory. It may call edit again, with another
// node.
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

// with returns the state with a node added or replaced.
func (s *state) with(n Node) *state {
	next := s.clone()
	c := n.clone()
	next.put(&c)
	return next
}

// Revoke makes a key no node any more, at once. After an ErrUnavailable the revocation
// counts here too, but it is not written yet. Until then other gateways still know the
// node, and the next Registry would, too. To revoke again changes nothing.
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
		// A node that a gateway without this revocation paired anew meanwhile is
		// revoked, too.
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

// Forget removes a revoked node. Its key is unknown from then on.
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

// Seen records the address that a node connected from, if known, and its description of
// itself. Keys without a node are ignored.
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
	next, _ := note(st) // note returns no error
	if next == st {
		return nil
	}
	r.unkept["seen "+key] = note
	r.now.Store(next)
	r.later()
	return nil
}

// note stores new values, and reports whether there were any.
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

// update stores the next state and then makes it current. If that fails the old state
// stays current, and is written soon. mu is held.
func (r *Registry) update(step edit) error { return r.updateWithin(patient, step) }

func (r *Registry) updateWithin(patience time.Duration, step edit) error {
	for tries := 0; ; {
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
			r.later() // it may be stored nevertheless, but does not count
			return err
		}
		before := r.now.Load()
		if err = r.reload(patience); err == nil && r.now.Load() == before {
			if tries++; tries > staleTries {
				err = errHidden
			}
			time.Sleep(stalePause)
		}
		if err != nil {
			r.later()
			return err
		}
	}
}

// reload makes the state of other gateways current, with our pending changes. mu is
// held.
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
			r.recordAnswer(q, Approved, c.Node.ApprovedBy, c.Node.Name)
		}
		r.tell(c)
	}
	r.hearRejections(old, st)
	return nil
}

// changes returns the differences of two states that matter for connections.
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
		if n.active() { // two changes; only the second was seen
			add(EventRevoked, n)
		}
		add(EventForgotten, n)
	}
	return list
}

// follow applies the writes of other gateways, until the registry is closed.
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

// later schedules a write of the state in memory. mu is held.
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

// tell reports a change to Changed. mu is held.
func (r *Registry) tell(c Change) {
	r.opts.Log.Info("pairing", "event", c.Event, "key", c.Key, "node", c.Node.ID, "name", c.Node.Name)
	if r.opts.Changed != nil {
		r.opts.Changed(c)
	}
}

// wall returns a time in its stored precision.
func wall(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
