package pairing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxRejections bounds the stored rejections. The oldest are forgotten first, and their
// keys may ask again.
const maxRejections = 1024

// A rejection says that a key will not be a node, at any gateway, until it may ask
// again.
type rejection struct {
	Key   string    `json:"key"`
	Name  string    `json:"name"` // the name that it would have had
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
}

// check returns an error if x cannot follow the entry last in a file.
func (x *rejection) check(last string) error {
	if err := ValidateKey(x.Key); err != nil {
		return err
	}
	if x.Key <= last || x.At.IsZero() || !x.Until.After(x.At) {
		return fmt.Errorf("the rejection of %s is not as one is", x.Key)
	}
	return errors.Join(validateName(x.Name), validateWho(x.By))
}

// rejection returns the valid rejection of a key, or nil. One that would last for longer
// than any is from before the clock was set back. Other gateways' clocks may differ.
func (s *state) rejection(key string, now time.Time) *rejection {
	if x := s.rejected[key]; x != nil && x.Until.After(now) && x.Until.Before(now.Add(2*RequestLimit)) {
		return x
	}
	return nil
}

// reject adds a rejection, and drops expired ones.
func (s *state) reject(x *rejection) {
	maps.DeleteFunc(s.rejected, func(_ string, old *rejection) bool { return !old.Until.After(x.At) })
	for len(s.rejected) >= maxRejections {
		delete(s.rejected, slices.MinFunc(slices.Collect(maps.Values(s.rejected)), func(a, b *rejection) int { return a.At.Compare(b.At) }).Key)
	}
	s.rejected[x.Key] = x
}

// Reject rejects the key with that code, id or key. If there was another answer first,
// the error is an ErrConflict that names the answer and the person.
func (r *Registry) Reject(ref, by string) error {
	if err := validateWho(by); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q, err := r.unanswered(ref)
	if err != nil {
		return err
	}
	now := wall(time.Now())
	x := &rejection{Key: q.Key, Name: suggested(q.Hello.Name), By: by, At: now, Until: now.Add(RequestLimit)}
	err = r.update(func(st *state) (*state, error) {
		if err := st.answered(q, now); err != nil {
			return nil, err
		}
		next := st.clone()
		next.reject(x)
		return next, nil
	})
	if err != nil {
		return err
	}
	r.rejected(q, x)
	return nil
}

// answered returns the error for a request that another gateway has answered.
func (s *state) answered(q *Request, now time.Time) error {
	if n := s.nodes[q.ID]; n != nil && n.Key == q.Key && n.active() {
		return answered(n.Name, q.ID, Approved, n.ApprovedBy, n.PairedAt)
	}
	if x := s.rejection(q.Key, now); x != nil {
		return answered(x.Name, q.ID, Rejected, x.By, x.At)
	}
	return nil
}

// rejected reports that a request was rejected. mu is held.
func (r *Registry) rejected(q *Request, x *rejection) {
	a := r.recordAnswer(q, Rejected, x.By, x.Name)
	a.AnsweredAt, a.ExpiresAt = x.At, x.Until
	r.tell(Change{Event: EventRejected, Key: q.Key, Request: r.view(a)})
}

// hearRejections applies the rejections of other gateways to requests. mu is held.
func (r *Registry) hearRejections(old, now *state) {
	for key, x := range now.rejected {
		if was := old.rejected[key]; was != nil && was.At.Equal(x.At) {
			continue
		}
		if q := r.requests[key]; q != nil && q.State == Pending {
			r.rejected(q, x)
		}
	}
}
