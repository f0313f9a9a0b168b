package pairing

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// RequestLimit is the time to answer a request, counted from the node's last ask, and
// the time that a rejection stays.
const RequestLimit = time.Hour

// Bounds of the stored requests.
const (
	maxRequests   = 256
	maxPerAddress = 8
)

// A State is the state of a request.
type State string

// The states of a request.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Rejected State = "rejected"
)

// A Request is a key that asks to be a node.
type Request struct {
	ID    string // of the future or existing node
	Key   string
	Code  string // empty for the key of a node
	State State

	Name  string // the node's name, unless the approver chooses another
	Hello Hello  // the node's description of itself; its addresses are claims
	From  string // the address that the gateway saw; empty if unknown

	// SameName is the id of another node that has the suggested name: the machine may
	// have lost its key, or may pretend to be that node.
	SameName string
	// RevokedAt is when this very key was revoked; zero if it never was.
	RevokedAt time.Time

	AskedAt, ExpiresAt time.Time
	AnsweredBy         string
	AnsweredAt         time.Time
}

// Ask asks for a key to become a node, or for the state of that request. It returns the
// request, which is Approved for the key of a node. Too many requests are an
// ErrUnavailable.
func (r *Registry) Ask(key string, from netip.Addr, h Hello) (Request, error) {
	if err := cmp.Or(ValidateKey(key), h.validate()); err != nil {
		return Request{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return Request{}, errClosed
	}
	now := time.Now()
	r.expire(now)
	st := r.now.Load()
	old := r.requests[key]
	if id, paired := st.active[key]; paired {
		n := st.nodes[id]
		return Request{
			ID: id, Key: key, State: Approved, Name: n.Name, Hello: h.clone(), From: address(from),
			AskedAt: now, ExpiresAt: now, AnsweredBy: n.ApprovedBy, AnsweredAt: n.PairedAt,
		}, nil
	}
	if x := st.rejection(key, now); x != nil {
		return Request{
			ID: ID(key), Key: key, State: Rejected, Name: x.Name, Hello: h.clone(), From: address(from),
			AskedAt: now, ExpiresAt: x.Until, AnsweredBy: x.By, AnsweredAt: x.At,
		}, nil
	}
	all, here := 0, 0
	for _, q := range r.requests {
		if q.Key == key || q.State == Approved {
			continue
		}
		all++
		if from.IsValid() && origin(q.From) == origin(address(from)) {
			here++
		}
	}
	if all >= maxRequests || here >= maxPerAddress {
		return Request{}, corral.Errorf(corral.ErrUnavailable, "answer some of them, wait until they expire, or use a setup token",
			"too many keys ask to be paired: %d, %d of them from %s", all, here, cmp.Or(address(from), "there"))
	}
	q := &Request{ID: ID(key), Key: key, State: Pending, Hello: h.clone(), From: address(from), AskedAt: now, ExpiresAt: now.Add(RequestLimit)}
	if again := old != nil && old.State == Pending; again {
		q.Code, q.AskedAt = old.Code, old.AskedAt
		r.requests[key] = q
		return r.view(q), nil
	}
	q.Code = r.opts.code(key, r.opts.GatewayKey)
	r.requests[key] = q
	r.tell(Change{Event: EventAsked, Key: key, Request: r.view(q)})
	return r.view(q), nil
}

func (h Hello) clone() Hello {
	h.Addresses, h.Features = slices.Clone(h.Addresses), slices.Clone(h.Features)
	return h
}

func address(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// origin returns the part of an address that counts as one sender: a machine with IPv6
// has a whole /64.
func origin(s string) string {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() {
		return s
	}
	p, _ := a.Prefix(64) // 64 is a length of IPv6
	return p.String()
}

// expire drops expired requests, and the oldest approvals if there are many. mu is
// held.
func (r *Registry) expire(now time.Time) {
	var approved []*Request
	for key, q := range r.requests {
		switch {
		case !q.ExpiresAt.After(now):
			delete(r.requests, key)
		case q.State == Approved:
			approved = append(approved, q)
		}
	}
	slices.SortFunc(approved, func(a, b *Request) int { return a.AnsweredAt.Compare(b.AnsweredAt) })
	for _, q := range approved[:max(0, len(approved)-maxRequests)] {
		delete(r.requests, q.Key)
	}
}

// view returns a request for display, with the name that it would get now. mu is held.
func (r *Registry) view(q *Request) Request {
	v := *q
	v.Hello = q.Hello.clone()
	if q.State == Pending {
		st := r.now.Load()
		name := suggested(q.Hello.Name)
		v.Name, v.SameName = st.unique(name, q.ID), st.holder(name, q.ID)
		if n := st.nodes[q.ID]; n != nil {
			v.RevokedAt = n.RevokedAt
		}
	}
	return v
}

// Requests returns the pending requests and the recently answered ones, the oldest
// first.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	list := make([]Request, 0, len(r.requests))
	for _, q := range r.requests {
		list = append(list, r.view(q))
	}
	slices.SortFunc(list, func(a, b Request) int {
		return cmp.Or(a.AskedAt.Compare(b.AskedAt), strings.Compare(a.ID, b.ID))
	})
	return list
}

// An Approval has the settings of an approved node.
type Approval struct {
	By string
	// Name is the node's name. Pass the name that the approver saw: the node's
	// suggestion may have changed since. Empty: the request's name.
	Name   string
	Labels map[string]string
}

// Approve makes the key with that code, id or key a node. If there was another answer
// first, the error is an ErrConflict that names the answer and the person. The same
// approval by the same person, who perhaps got no reply, returns the node.
func (r *Registry) Approve(ref string, a Approval) (Node, error) {
	if err := cmp.Or(validateWho(a.By), validateLabels(a.Labels)); err != nil {
		return Node{}, err
	}
	if a.Name != "" {
		if err := validateName(a.Name); err != nil {
			return Node{}, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.unanswered(ref)
	if err != nil {
		return r.repeated(ref, a, err)
	}
	var n *Node
	err = r.update(func(st *state) (*state, error) {
		if err := st.answered(q, time.Now()); err != nil {
			return nil, err
		}
		next := st.clone()
		var err error
		if n, err = next.pair(q.Key, cmp.Or(a.Name, suggested(q.Hello.Name)), a.Name != ""); err != nil {
			return nil, err
		}
		n.Labels, n.ApprovedBy = cloneLabels(a.Labels), a.By
		from, _ := netip.ParseAddr(q.From) // it is a valid address, or empty
		n.note(from, q.Hello)
		return next, nil
	})
	if err != nil {
		return r.repeated(ref, a, err)
	}
	r.recordAnswer(q, Approved, a.By, n.Name)
	r.tell(Change{Event: EventPaired, Key: n.Key, Node: n.clone()})
	return n.clone(), nil
}

// repeated returns the node if the same person already approved it in the same way;
// else err. mu is held.
func (r *Registry) repeated(ref string, a Approval, err error) (Node, error) {
	if !errors.Is(err, corral.ErrConflict) || a.By == "" {
		return Node{}, err
	}
	for _, q := range r.requests {
		n := r.now.Load().nodes[q.ID]
		if q.is(strings.TrimSpace(ref)) && n != nil && n.Key == q.Key && n.active() &&
			n.ApprovedBy == a.By && (a.Name == "" || a.Name == n.Name) && maps.Equal(n.Labels, a.Labels) {
			return n.clone(), nil
		}
	}
	return Node{}, err
}

// is reports whether the request has that code, id or key.
func (q *Request) is(ref string) bool { return SameCode(q.Code, ref) || q.ID == ref || q.Key == ref }

// pair adds a node, or pairs a revoked node again: the same key is the same node. With
// exactly the name has to be free; otherwise it is made unique.
func (s *state) pair(key, name string, exactly bool) (*Node, error) {
	id := ID(key)
	old := s.nodes[id]
	switch {
	case old != nil && old.Key != key:
		return nil, corral.Errorf(corral.ErrConflict, "make a new key on that node", "the key %s has the id of another node, %s", key, id)
	case old == nil && len(s.nodes) >= maxNodes:
		return nil, corral.Errorf(corral.ErrUnavailable, "forget nodes that were revoked", "there are %d nodes, of at most %d", len(s.nodes), maxNodes)
	}
	if !exactly {
		name = s.unique(name, id)
	} else if err := s.free(name, id); err != nil {
		return nil, err
	}
	n := &Node{ID: id, Name: name, Key: key, PairedAt: wall(time.Now())}
	if old != nil {
		n.Addresses = slices.Clone(old.Addresses)
	}
	delete(s.rejected, key)
	s.put(n)
	return n, nil
}

func cloneLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return maps.Clone(labels)
}

// recordAnswer stores the answer to a request. mu is held.
func (r *Registry) recordAnswer(q *Request, s State, by, name string) *Request {
	answered := *q
	now := time.Now()
	answered.State, answered.AnsweredBy, answered.AnsweredAt, answered.Name = s, by, now, name
	answered.ExpiresAt = now.Add(RequestLimit)
	r.requests[q.Key] = &answered
	return &answered
}

// unanswered finds a pending request. mu is held.
func (r *Registry) unanswered(ref string) (*Request, error) {
	if r.store == nil {
		return nil, errClosed
	}
	r.expire(time.Now())
	ref = strings.TrimSpace(ref)
	var pending, settled []*Request
	for _, q := range r.requests {
		switch {
		case !q.is(ref):
		case q.State == Pending:
			pending = append(pending, q)
		default:
			settled = append(settled, q)
		}
	}
	switch {
	case len(pending) == 1:
		return pending[0], nil
	case len(pending) > 1: // only an attacker's search of hours makes that
		return nil, corral.Errorf(corral.ErrInvalid, "compare the keys, and use the id", "%d keys that ask to be paired have the code %s", len(pending), quote(ref))
	case len(settled) > 0:
		q := slices.MaxFunc(settled, func(a, b *Request) int { return a.AnsweredAt.Compare(b.AnsweredAt) })
		return nil, answered(q.Name, q.ID, q.State, q.AnsweredBy, q.AnsweredAt)
	}
	return nil, corral.Errorf(corral.ErrNotFound, "see which are pending: corral nodes pending; a machine that waits asks again by itself", "no key that asks to be paired has the code or id %s", quote(ref))
}

// answered returns the error for a request that had another answer.
func answered(name, id string, s State, by string, at time.Time) error {
	return corral.Errorf(corral.ErrConflict, "", "the request of %s (%s) was %s by %s at %s", name, id, s, cmp.Or(by, "somebody"), at.UTC().Format(time.RFC3339))
}
