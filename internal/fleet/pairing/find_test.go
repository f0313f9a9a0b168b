package pairing

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
)

// A ref that could be several nodes names none of them, so that no wrong one is revoked.
// Names and prefixes of active nodes come before those of revoked ones.
func TestFind(t *testing.T) {
	r := open(t, newDir(t), quick)
	first := map[byte]Node{}
	var a, b Node // their ids begin with the same letter
	for n := 1; b.ID == ""; n++ {
		node := pair(t, r, n, "node")
		if a = first[node.ID[0]]; a.ID != "" {
			b = node
		}
		first[node.ID[0]] = node
	}
	prefix := a.ID[:1]
	for what, err := range map[string]error{
		"revoke": func() error { _, err := r.Revoke(prefix, "anna"); return err }(),
		"rename": func() error { _, err := r.Rename(prefix, "other"); return err }(),
		"label":  func() error { _, err := r.Relabel(prefix, nil); return err }(),
		"forget": r.Forget(prefix),
	} {
		if wantKind(t, err, corral.ErrInvalid); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for _, n := range r.Nodes() {
		if !n.active() || n.Name == "other" {
			t.Errorf("%+v", n)
		}
	}
	_, err := r.Revoke(a.ID, "anna")
	ok(t, err)
	if got, err := r.Node(prefix); err != nil || got.ID != b.ID {
		t.Errorf("the active one of two: %s, %v, want %s", got.ID, err, b.ID)
	}
	again := pair(t, r, 500, a.Name)
	for ref, want := range map[string]string{a.Name: again.ID, " " + b.Name + "\n": b.ID, a.Key: a.ID, b.Key: b.ID, a.ID: a.ID} {
		if got, err := r.Node(ref); err != nil || got.ID != want {
			t.Errorf("%q: %s, %v, want %s", ref, got.ID, err, want)
		}
	}
	nodes := r.Nodes()
	if last := nodes[len(nodes)-1]; last.ID != a.ID || !slices.IsSortedFunc(nodes[:len(nodes)-1], func(a, b Node) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) }) {
		t.Errorf("the order: %+v", nodes)
	}
	for _, ref := range []string{"", "none", "!"} {
		_, err := r.Node(ref)
		wantKind(t, err, corral.ErrNotFound)
		_, err = r.Revoke(ref, "anna")
		wantKind(t, err, corral.ErrNotFound)
		_, err = r.Rename(ref, "x")
		wantKind(t, err, corral.ErrNotFound)
		wantKind(t, r.Forget(ref), corral.ErrNotFound)
		wantKind(t, r.Withdraw(ref), corral.ErrNotFound)
		wantKind(t, r.Reject(ref, "anna"), corral.ErrNotFound)
	}
}

// A closed registry has no nodes, changes nothing, and writes nothing later.
func TestClosed(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir, quick)
		n := pair(t, r, 1, "a")
		secret, token := token(t, r, 1)
		given := proof(t, secret, 2)
		q := ask(t, r, 3, "b")
		ok(t, r.Seen(n.Key, home, Hello{OS: "plan9"}))
		ok(t, r.Close())
		time.Sleep(2 * writeDelay)
		hello := Hello{Name: "c", OS: "linux"}
		for what, do := range map[string]func() error{
			"ask":      func() error { _, err := r.Ask(key(4), home, hello); return err },
			"approve":  func() error { _, err := r.Approve(q.Code, Approval{By: "anna"}); return err },
			"reject":   func() error { return r.Reject(q.Code, "anna") },
			"rename":   func() error { _, err := r.Rename(n.ID, "x"); return err },
			"label":    func() error { _, err := r.Relabel(n.ID, nil); return err },
			"revoke":   func() error { _, err := r.Revoke(n.ID, "anna"); return err },
			"forget":   func() error { return r.Forget(n.ID) },
			"seen":     func() error { return r.Seen(n.Key, home, hello) },
			"token":    func() error { _, _, err := r.NewToken(time.Hour, 1, nil, "anna"); return err },
			"withdraw": func() error { return r.Withdraw(token.ID) },
			"redeem":   func() error { _, err := r.Redeem(given, key(2), home, hello); return err },
		} {
			if err := do(); !errors.Is(err, errClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if len(r.Nodes()) != 0 || len(r.Tokens()) != 0 {
			t.Error("it has nodes or tokens")
		}
		wantAuthorised(t, r)
		r = open(t, dir, quick)
		if got, err := r.Node(n.ID); err != nil || got.OS != "plan9" || len(r.Tokens()) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// What happens to a node is told with its key, once each.
func TestChangesOfANode(t *testing.T) {
	var told []Event
	r := open(t, newDir(t), quick, func(o *Options) {
		o.Changed = func(c Change) {
			if c.Key != key(1) {
				t.Errorf("%+v", c)
			}
			told = append(told, c.Event)
		}
	})
	n := pair(t, r, 1, "a")
	_, err := r.Rename(n.ID, "b")
	ok(t, err)
	wantKind(t, r.Forget(n.ID), corral.ErrInvalid) // it is paired
	for range 2 {
		_, err = r.Revoke(n.ID, "anna")
		ok(t, err)
	}
	ok(t, r.Forget(n.ID))
	if want := []Event{EventAsked, EventPaired, EventRenamed, EventRevoked, EventForgotten}; !slices.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
}
