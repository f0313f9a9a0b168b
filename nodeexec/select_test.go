package nodeexec

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

func TestChoose(t *testing.T) {
	node := func(id, name string, online bool, addresses ...string) candidate {
		p := &peer{id: id, heard: time.Unix(1_700_000_000, 0)}
		return candidate{Paired: Paired{ID: id, Name: name, Addresses: addresses}, peer: p, online: online}
	}
	two := []candidate{node("abc1", "builder", true, "10.0.0.1"), node("abd2", "tester", true, "10.0.0.2", "fe80::2")}
	off := []candidate{node("abc1", "builder", true), node("abd2", "tester", false), node("abe3", "", false)}
	for _, tc := range []struct {
		name       string
		all        []candidate
		what       string
		want       string // id
		kind       error
		text, hint string
	}{
		{"id", two, "abc1", "abc1", nil, "", ""},
		{"name", two, "tester", "abd2", nil, "", ""},
		{"address", two, "10.0.0.2", "abd2", nil, "", ""},
		{"mapped address", two, "::ffff:10.0.0.2", "abd2", nil, "", ""},
		{"long address", two, "fe80:0::2", "abd2", nil, "", ""},
		{"prefix", two, "abd", "abd2", nil, "", ""},
		{"ambiguous prefix", two, "ab", "", corral.ErrInvalid, `"ab" could be any of 2 nodes: abc1 (builder), abd2 (tester)`, "by its whole id"},
		{"none chosen", two, "", "", corral.ErrInvalid, "2 nodes are online, and none is chosen: abc1 (builder), abd2 (tester)", "tools.exec.node"},
		{"unknown", two, "x", "", corral.ErrUnavailable, `no node answers to "x"; paired are abc1 (builder), abd2 (tester)`, "pair this one"},
		{"a name is no prefix", two, "build", "", corral.ErrUnavailable, `no node answers to "build"`, ""},
		{"an address is no prefix", two, "10.0.0", "", corral.ErrUnavailable, `no node answers to "10.0.0"`, ""},

		{"the only one online", off, "", "abc1", nil, "", ""},
		{"offline ones do not make a prefix ambiguous", off, "ab", "abc1", nil, "", ""},
		{"offline", off, "tester", "", corral.ErrUnavailable, `cannot use node "tester": abd2 (tester) is offline since 2023-11-14T22:13:20Z`, "start corral node there"},
		{"offline, by prefix", off, "abe", "", corral.ErrUnavailable, `cannot use node "abe": abe3 is offline`, ""},
		{"all offline", off[1:], "", "", corral.ErrUnavailable, "no node is online: abd2 (tester) is offline since 2023-11-14T22:13:20Z, abe3 is offline", "start corral node on one of them"},
		{"a name that is offline is not another's prefix", []candidate{node("ab", "", false), node("abc1", "", true)}, "ab", "", corral.ErrUnavailable, "ab is offline", ""},
		{"one name for two", []candidate{node("a1", "x", true), node("b2", "x", true)}, "x", "", corral.ErrInvalid, `"x" could be any of 2 nodes: a1 (x), b2 (x)`, ""},

		{"none paired", nil, "", "", corral.ErrUnavailable, "no node is paired", "corral nodes join"},
		{"none paired, one named", nil, "x", "", corral.ErrUnavailable, `cannot use node "x": no node is paired`, "corral nodes join"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := choose(tc.all, tc.what)
			if tc.kind == nil {
				if err != nil || got.ID != tc.want {
					t.Errorf("%q, %v", got.ID, err)
				}
				return
			}
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(corral.Hint(err), tc.hint) {
				t.Errorf("%v (hint %q)", err, corral.Hint(err))
			}
			if none := strings.Contains(err.Error(), "no node answers to") || strings.Contains(err.Error(), "no node is paired"); errors.Is(err, corral.ErrNoNode) != none {
				t.Errorf("%v: whether there is such a node: %t", err, !none)
			}
		})
	}
}

func TestPresence(t *testing.T) {
	p := &peer{id: "n1", changed: make(chan struct{})}
	online := func() bool { _, _, online := p.about(); return online }
	changed := func(f func()) bool {
		_, ch := p.state()
		f()
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	hello := fabric.Hello{Min: 1, Max: 1, Boot: "a", Every: 1000}
	if online() {
		t.Error("online before it was heard of")
	}
	if !changed(func() { p.storeHello(hello) }) || !online() {
		t.Error("a first hello is no news")
	}
	if changed(func() { p.storeHello(hello) }) {
		t.Error("a heartbeat is news")
	}
	p.heard = time.Now().Add(-2600 * time.Millisecond)
	if online() {
		t.Error("online after it was silent for more than two and a half heartbeats")
	}
	hello.Link++
	if !changed(func() { p.storeHello(hello) }) || !online() {
		t.Error("another connection is no news")
	}
	p.gone = true // a life that may still be there: TestRivals
	hello.Boot = "b"
	if !changed(func() { p.storeHello(hello) }) {
		t.Error("another boot is no news")
	}
	p.away()
	if online() {
		t.Error("online although nobody listens there")
	}
	hello.Leaving = true
	p.storeHello(hello)
	if online() {
		t.Error("online although it left")
	}
}
