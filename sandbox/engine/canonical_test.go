package engine

import "testing"

func TestCanonical(t *testing.T) {
	for want, spec := range map[string]Spec{
		`{"Version":1}`: {},
		`{"CPUs":0.5,"Image":"a<b","Memory":9007199254740993,"Version":1}`: {Image: "a<b", Memory: 9007199254740993, CPUs: 0.5},
		`{"Mounts":[{"Source":"/y","Target":"/a"},{"ReadOnly":true,"Source":"/x","Target":"/b"}],"Version":1}`: {
			Mounts: []Mount{{Source: "/x", Target: "/b", ReadOnly: true}, {Source: "/y", Target: "/a"}},
		},
		`{"Args":["b","a",""],"Labels":{"a":"2","b":"1"},"Version":1}`:                             {Args: []string{"b", "a", ""}, Labels: map[string]string{"b": "1", "a": "2", "c": ""}},
		`{"Tmpfs":[{"Exec":true,"Mode":1023,"Size":1,"Target":"/a"},{"Target":"/b"}],"Version":1}`: {Tmpfs: []Tmpfs{{Target: "/b"}, {Target: "/a", Size: 1, Mode: 0o1777, Exec: true}}},
	} {
		if got := string(spec.Canonical()); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
