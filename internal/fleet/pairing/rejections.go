package pairing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxRejections bounds those that are kept. Of more the oldest are forgotten, and
// their keys may ask again.
const maxRejections = 1024

// A rejection is a key that will not be a node, whichever gateway it asks, until
// it may ask again.
type rejection struct {
	Key   string    `json:"key"`
	Name  string    `json:"name"` // that it would have had
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
}

// check reports why it cannot be one that was written after another.
func (x *rejection) check(last string) error {
	if err := ValidateKey(x.Key); err != nil {
		return err
	}
	if x.Key <= last || x.At.IsZero() || !x.Until.After(x.At) {
		return fmt.Errorf("the rejection of %s is not as one is", x.Key)
	}
	return errors.Join(validateName(x.Name), validateWho(x.By))
}

// rejection is the one of a key that still counts; nil if there is none.
func (s *state) rejection(key string, now time.Time) *rejection {
	if x := s.rejected[key]; x != nil && x.Until.After(now) {
		return x
	}
	return nil
}

// reject adds a rejection, and drops those that count no more.
func (s *state) reject(x *rejection) {
	maps.DeleteFunc(s.rejected, func(_ string, old *rejection) bool { return !old.Until.After(x.At) })
	for len(s.rejected) >= maxRejections {
		delete(s.rejected, slices.MinFunc(slices.Collect(maps.Values(s.rejected)), func(a, b *rejection) int { return a.At.Compare(b.At) }).Key)
	}
	s.rejected[x.Key] = x
}

// Reject tells the key with that code, id or key that it will not be a node. If there
// was another answer first, it is an ErrConflict that says who answered what.
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

// answered is the error of a request that was answered at another gateway.
func (s *state) answered(q *Request, now time.Time) error {
	if n := s.nodes[q.ID]; n != nil && n.Key == q.Key && n.active() {
		return answered(n.Name, q.ID, Approved, n.ApprovedBy, n.PairedAt)
	}
	if x := s.rejection(q.Key, now); x != nil {
		return answered(x.Name, q.ID, Rejected, x.By, x.At)
	}
	return nil
}

// rejected tells that a request was rejected. mu is held.
func (r *Registry) rejected(q *Request, x *rejection) {
	a := r.settle(q, Rejected, x.By, x.Name)
	a.AnsweredAt, a.ExpiresAt = x.At, x.Until
	r.tell(Change{Event: EventRejected, Key: q.Key, Request: r.view(a)})
}

// hearRejections has requests be rejected that others have rejected. mu is held.
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
