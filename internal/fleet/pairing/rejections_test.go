package pairing

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
)

// A key that was rejected at one gateway is rejected at all, whether it has asked
// there or not, also when they begin anew, and may ask again when that is over.
func TestRejectedEverywhere(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	b, heard := c.gateway()
	ask(t, a, 1, "web")
	ask(t, b, 1, "web") // which hears it as well
	ask(t, a, 2, "api") // which the other has not heard
	ok(t, a.Reject(ID(key(1)), "anna"))
	ok(t, a.Reject(ID(key(2)), "anna"))
	soon(t, "b hears of it", func() bool {
		for _, q := range b.Requests() {
			if q.Key == key(1) {
				return q.State == Rejected && q.AnsweredBy == "anna"
			}
		}
		return false
	})
	soon(t, "b hears of both", func() bool { return len(b.now.Load().rejected) == 2 })
	for _, r := range []*Registry{a, b} {
		for n, name := range map[int]string{1: "web", 2: "api"} {
			q := ask(t, r, n, name)
			if q.State != Rejected || q.AnsweredBy != "anna" || q.Name != name || q.ID != ID(key(n)) || !q.ExpiresAt.After(time.Now()) {
				t.Errorf("%+v", q)
			}
		}
	}
	told := strings.Join(heard.all(), ",")
	if told != "asked ,rejected " {
		t.Errorf("told %s", told)
	}
	_, err := b.Approve(ID(key(1)), Approval{By: "bert"})
	wantKind(t, err, corral.ErrConflict, "was rejected by anna")
	late, _ := c.gateway()
	if q := ask(t, late, 2, "api"); q.State != Rejected {
		t.Errorf("%+v", q)
	}
	// A setup token is the operator's word as well, and the newer one.
	secret, _ := token(t, a, 1)
	_, err = a.Redeem(proof(t, secret, 1), key(1), home, Hello{Name: "web"})
	ok(t, err)
	soon(t, "it is a node", knows(b, 1))
	soon(t, "it is no longer rejected", func() bool { return len(b.now.Load().rejected) == 1 })
}

// Of an approval and a rejection at two gateways at once one counts, and whoever
// came second is told.
func TestApprovedAndRejected(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	b, _ := c.gateway()
	for n := range 10 {
		ask(t, a, n, "n")
		ask(t, b, n, "n")
		errs := make(chan error, 2)
		go func() { _, err := a.Approve(ID(key(n)), Approval{By: "anna"}); errs <- err }()
		go func() { errs <- b.Reject(ID(key(n)), "bert") }()
		one, two := <-errs, <-errs
		if (one == nil) == (two == nil) {
			t.Fatalf("approved and rejected: %v, %v", one, two)
		}
		wantKind(t, errors.Join(one, two), corral.ErrConflict, "the request of")
		soon(t, "both agree", func() bool {
			_, atA := a.Authorize(key(n))
			_, atB := b.Authorize(key(n))
			return atA == atB && atA == (ask(t, a, n, "n").State == Approved) && atB == (ask(t, b, n, "n").State == Approved)
		})
	}
}

// Rejections outlast the program, for as long as they count, and are bounded.
func TestRejectionsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		r := open(t, dir, quick)
		ask(t, r, 1, "web")
		ok(t, r.Reject(ID(key(1)), "anna"))
		ok(t, r.Close())
		r = open(t, dir, quick)
		if q := ask(t, r, 1, "web"); q.State != Rejected || q.AnsweredBy != "anna" {
			t.Errorf("%+v", q)
		}
		time.Sleep(RequestLimit)
		if q := ask(t, r, 1, "web"); q.State != Pending {
			t.Errorf("%+v", q)
		}
		st := newState()
		for n := range maxRejections + 3 {
			st.reject(&rejection{Key: fmt.Sprint(n), At: time.Now().Add(time.Duration(n)), Until: time.Now().Add(RequestLimit)})
		}
		if len(st.rejected) != maxRejections || st.rejected["2"] != nil || st.rejected["3"] == nil {
			t.Errorf("%d are kept", len(st.rejected))
		}
		ok(t, r.Close())
	})
}

// A rejection lasts for its time, also if the clock was ahead when it was made, and was
// set back since.
func TestRejectedByAClockAhead(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir, quick)
	for i, ahead := range []time.Duration{48 * time.Hour, 10 * time.Minute} { // a rejection removes older ones
		n := i + 1
		ask(t, r, n, "n")
		at := wall(time.Now().Add(ahead))
		x := &rejection{Key: key(n), Name: "n", At: at, Until: at.Add(RequestLimit)}
		r.mu.Lock()
		err := r.update(func(st *state) (*state, error) {
			next := st.clone()
			next.reject(x)
			return next, nil
		})
		r.rejected(r.requests[key(n)], x)
		r.mu.Unlock()
		ok(t, err)
	}
	for range 2 {
		if q := ask(t, r, 1, "one"); q.State != Pending {
			t.Errorf("%s until %v", q.State, q.ExpiresAt)
		}
		if q := ask(t, r, 2, "two"); q.State != Rejected { // the clocks of two gateways differ
			t.Errorf("%s", q.State)
		}
		ok(t, r.Close())
		r = open(t, dir, quick)
	}
}
