package pairing

import (
	"errors"
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
