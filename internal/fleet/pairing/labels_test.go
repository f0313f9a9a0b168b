package pairing

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func TestRelabel(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	n := pair(t, r, 1, "web")
	set := func(s string) *string { return &s }
	for _, tc := range []struct {
		change map[string]*string
		want   map[string]string
		kind   error
	}{
		{map[string]*string{"a": set("1"), "b": set("")}, map[string]string{"a": "1", "b": ""}, nil},
		{map[string]*string{"a": nil, "c": set("3"), "none": nil}, map[string]string{"b": "", "c": "3"}, nil},
		{map[string]*string{"a": set("1"), "no key": set("")}, map[string]string{"b": "", "c": "3"}, corral.ErrInvalid},
		{map[string]*string{"b": nil, "c": nil}, nil, nil},
	} {
		if _, err := r.Relabel("web", tc.change); !errors.Is(err, tc.kind) {
			t.Errorf("%v: %v", tc.change, err)
		}
		got, err := r.Node(n.ID)
		ok(t, err)
		if diff := cmp.Diff(tc.want, got.Labels); diff != "" {
			t.Error(diff)
		}
		ok(t, r.Close())
		r = open(t, dir) // which reads nothing that it would not write
	}
}

// A node that says as much of itself as it may can be read again, with the address that
// the gateway saw.
func TestLongHello(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	h := Hello{OS: strings.Repeat("x", maxHello%maxText)}
	for range maxHello / maxText {
		h.Features = append(h.Features, strings.Repeat("x", maxText))
	}
	q, err := r.Ask(key(1), netip.MustParseAddr("2001:db8::1"), h)
	ok(t, err)
	_, err = r.Approve(q.Code, Approval{By: "test"})
	ok(t, err)
	ok(t, r.Close())
	wantAuthorised(t, open(t, dir), 1)
}
