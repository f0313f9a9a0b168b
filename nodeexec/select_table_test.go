package nodeexec

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/doctable"
)

var update = flag.Bool("update", false, "rewrite the table in docs/reference/nodes-selection.md")

// A dimension of the choice of a node, with every value it can have.
type dimension struct {
	name   string
	values []string
}

// Of the nodes that a name means, some can be used, some are offline, and some
// speak another version of the protocol.
var dimensions = []dimension{
	{"node=", []string{"nothing", "NAME", "NA…", "pool:NAME", "pool:"}},
	{"usable", []string{"none", "one", "several"}},
	{"offline", []string{"none", "some"}},
	{"other version", []string{"none", "some"}},
	{"others are paired", []string{"no", "yes"}},
}

const (
	thatNode = "that node"
	lessBusy = "of two of them, drawn at random, the less busy"

	invalid     = "invalid"
	unavailable = "unavailable"
)

// selectTable is the specification. A cell is a value, several of them joined
// by " or ", or * for any. In an error, NODES are the nodes that it lists.
var selectTable = []struct {
	cells         [5]string
	outcome, text string
	hint          string
}{
	// node=, usable, offline, other version, others are paired
	{[5]string{"nothing or NAME or NA… or pool:NAME", "one", "*", "*", "*"}, thatNode, "", ""},
	{[5]string{"pool:NAME", "several", "*", "*", "*"}, lessBusy, "", ""},
	{[5]string{"nothing", "several", "*", "*", "*"}, invalid, "2 nodes are online, and none is chosen: NODES", nameHint},
	{[5]string{"NAME or NA…", "several", "*", "*", "*"}, invalid, `"NAME" could be any of 2 nodes: NODES`, "name one of them by its whole id"},
	{[5]string{"pool:", "*", "*", "*", "*"}, invalid, `"pool:" names no label`, "write pool:NAME for the label pool=NAME, or pool:KEY=VALUE for any label"},

	{[5]string{"nothing", "none", "some", "none", "*"}, unavailable, "no node is online: NODES", "start corral node there"},
	{[5]string{"nothing", "none", "some", "some", "*"}, unavailable, "no node can be used: NODES", "start corral node on one of them"},
	{[5]string{"nothing", "none", "none", "some", "*"}, unavailable, "no node can be used: NODES", "upgrade Corral on the gateway"},
	{[5]string{"nothing", "none", "none", "none", "*"}, unavailable, "no node is paired", pairHint},

	{[5]string{"NAME or NA… or pool:NAME", "none", "some", "none", "*"}, unavailable, `cannot use node "NAME": NODES`, "start corral node there, or choose another node"},
	{[5]string{"NAME or NA… or pool:NAME", "none", "some", "some", "*"}, unavailable, `cannot use node "NAME": NODES`, "start corral node on one of them, or choose another node"},
	{[5]string{"NAME or NA… or pool:NAME", "none", "none", "some", "*"}, unavailable, `cannot use node "NAME": NODES`, "upgrade Corral on the gateway, or choose another node"},
	{[5]string{"NAME or NA…", "none", "none", "none", "yes"}, unavailable, `no node answers to "NAME"; paired are NODES`, "name one of them, or pair this one"},
	{[5]string{"pool:NAME", "none", "none", "none", "yes"}, unavailable, `no node has the label "pool=NAME"; paired are NODES`, "label the nodes that are to be in the pool (corral nodes label), or name one node"},
	{[5]string{"NAME or NA… or pool:NAME", "none", "none", "none", "no"}, unavailable, `cannot use node "NAME": no node is paired`, pairHint},
}

// named are the values of node= as they are given.
var named = map[string]string{"nothing": "", "NAME": "builder", "NA…": "ab", "pool:NAME": "pool:gpu", "pool:": "pool:"}

// situation is the nodes of a combination.
func situation(c []string) (all []candidate) {
	add := func(id string, online bool, oldest int) {
		p := &peer{id: id, told: fabric.Hello{Min: oldest, Max: oldest + 1}}
		node := candidate{Paired: Paired{ID: id, Name: "name-of-" + id}, peer: p, online: online}
		if online {
			node.misfit = fabric.Negotiate(id, p.told)
		}
		all = append(all, node)
	}
	for i := range map[string]int{"none": 0, "one": 1, "several": 2}[c[1]] {
		add(fmt.Sprintf("ab%d", i), true, 1)
	}
	if c[2] == "some" {
		add("ab8", false, 1)
	}
	if c[3] == "some" {
		add("ab9", true, 2)
	}
	for i := range all {
		switch c[0] {
		case "NAME":
			all[i].Name = "builder"
		case "pool:NAME":
			all[i].Labels = map[string]string{"pool": "gpu"}
		}
	}
	if c[4] == "yes" && c[0] != "nothing" {
		add("zz1", true, 1)
		all[len(all)-1].Labels = map[string]string{"pool": "cpu", "gpu": "gpu"}
	}
	return all
}

// outcome is what becomes of a combination, in the words of the table.
func outcome(c []string) (what, text, hint string) {
	all, name := situation(c), named[c[0]]
	for i := range all { // with the same load, it is drawn
		all[i].peer.told.Load = fabric.Load{CPUs: 1}
	}
	got, err := pick(all, name, nil, func(int) int { return 0 })
	if err == nil {
		if isPool(name) && c[1] == "several" {
			all[0].peer.told.Load.Running = 1
			other, err := pick(all, name, nil, func(int) int { return 0 })
			if err != nil || got.ID != "ab0" || other.ID != "ab1" {
				return "another", got.ID, other.ID
			}
			return lessBusy, "", ""
		}
		if got.ID != "ab0" {
			return "another", got.ID, ""
		}
		return thatNode, "", ""
	}
	for _, kind := range []error{corral.ErrInvalid, corral.ErrUnavailable} {
		if errors.Is(err, kind) {
			what = map[error]string{corral.ErrInvalid: invalid, corral.ErrUnavailable: unavailable}[kind]
		}
	}
	text = err.Error()
	// The nodes that it should list: those that it is about, all of them.
	about := filter(all, func(n candidate) bool { return n.ID != "zz1" })
	if counting := filter(about, candidate.counts); len(counting) > 0 {
		about = counting
	}
	say := candidate.String
	if len(about) == 0 {
		about, say = all, func(n candidate) string {
			return cmp.Or(map[string]string{"pool:NAME": `zz1 (name-of-zz1) with "pool=cpu"`}[c[0]], n.called())
		}
	}
	if len(about) > 0 {
		text = strings.Replace(text, listed(about, say), "NODES", 1)
	}
	for given, value := range map[string]string{"NAME": "builder", "NA…": "ab", "pool:NAME": "pool:gpu"} {
		if c[0] == given {
			text = strings.ReplaceAll(text, quote(value), `"NAME"`)
		}
	}
	return what, strings.ReplaceAll(text, "pool=gpu", "pool=NAME"), corral.Hint(err)
}

func combinations() [][]string {
	all := [][]string{nil}
	for _, d := range dimensions {
		var next [][]string
		for _, c := range all {
			for _, v := range d.values {
				next = append(next, append(slices.Clone(c), v))
			}
		}
		all = next
	}
	return all
}

func TestSelectTableCoversEveryCombinationOnce(t *testing.T) {
	used := map[int]bool{}
	for _, c := range combinations() {
		found := 0
		for n, row := range selectTable {
			matches := true
			for i, cell := range row.cells {
				matches = matches && (cell == "*" || slices.Contains(strings.Split(cell, " or "), c[i]))
			}
			if !matches {
				continue
			}
			found++
			used[n] = true
			if what, text, hint := outcome(c); what != row.outcome || text != row.text || hint != row.hint {
				t.Errorf("%q: %s: %s (%s)\nthe table says %s: %s (%s)", c, what, text, hint, row.outcome, row.text, row.hint)
			}
		}
		if found != 1 {
			t.Errorf("%q is in %d rows of the table", c, found)
		}
	}
	if len(used) != len(selectTable) {
		t.Errorf("%d of %d rows are about something", len(used), len(selectTable))
	}
}

func TestSelectTableIsDocumented(t *testing.T) {
	doctable.Table{
		File:  "../docs/reference/nodes-selection.md",
		Begin: "<!-- The table is written by: go test -run SelectTable -update ./nodeexec -->\n",
		End:   "<!-- end of the table -->\n",
	}.Check(t, renderTable(), *update)
}

func renderTable() string {
	var b strings.Builder
	b.WriteString("\n|")
	for _, d := range dimensions {
		b.WriteString(" " + d.name + " |")
	}
	b.WriteString(" outcome | what to do |\n|" + strings.Repeat("---|", len(dimensions)+2) + "\n")
	for _, row := range selectTable {
		b.WriteString("|")
		for _, cell := range row.cells {
			b.WriteString(" " + strings.ReplaceAll(cell, "*", "\\*") + " |")
		}
		outcome := row.outcome
		if row.text != "" {
			outcome += ": `" + row.text + "`"
		}
		fmt.Fprintf(&b, " %s | %s |\n", outcome, row.hint)
	}
	b.WriteString("\n")
	return b.String()
}

// What the table does not say: which pool is which label.
func TestPoolNames(t *testing.T) {
	for _, tc := range []struct {
		name, key, value string
		ok               bool
	}{
		{"pool:gpu", "pool", "gpu", true},
		{"pool:zone=eu-1", "zone", "eu-1", true},
		{"pool:corral.dev/Zone=a=b c", "corral.dev/Zone", "a=b c", true},
		{"pool:canary=", "canary", "", true},
		{"pool:pool=gpu", "pool", "gpu", true},
		{"pool:", "", "", false},
		{"pool:=gpu", "", "", false},
	} {
		key, value, err := parsePool(tc.name)
		if key != tc.key || value != tc.value || (err == nil) != tc.ok || err != nil && !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %q=%q, %v", tc.name, key, value, err)
		}
	}
	all := []candidate{
		{Paired: Paired{ID: "a1", Labels: map[string]string{"zone": ""}}, peer: &peer{}, online: true},
		{Paired: Paired{ID: "b2", Labels: map[string]string{"Zone": ""}}, peer: &peer{}, online: true},
		{Paired: Paired{ID: "c3"}, peer: &peer{}, online: true},
	}
	first := func(int) int { return 0 }
	if got, err := pick(all, "pool:zone=", nil, first); err != nil || got.ID != "a1" {
		t.Errorf("%s, %v", got.ID, err)
	}
	if got, err := pick(all, "pool:zone=", []string{"a1"}, first); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "was tried") {
		t.Errorf("%s, %v", got.ID, err)
	}
	if _, err := pick(all, "pool:"+strings.Repeat("x", 1000), nil, first); err == nil || len(err.Error()) > 1000 {
		t.Errorf("%v", err)
	}
}

// A node that was asked in vain does not count until it says something.
func TestSilentNode(t *testing.T) {
	p := &peer{id: "n1", changed: make(chan struct{})}
	p.storeHello(fabric.Hello{Min: 1, Max: 1, Boot: "a"})
	online := func() bool { _, _, online := p.about(); return online }
	if p.silent(time.Now().Add(-time.Minute), time.Second) || !online() {
		t.Error("silent although it said hello just now")
	}
	p.heard = time.Now().Add(-2 * time.Second)
	if p.silent(time.Now(), time.Second) || !online() {
		t.Error("silent although it was asked just now")
	}
	if !p.silent(p.heard, time.Second) || online() {
		t.Error("not silent although it said nothing in time")
	}
	if p.heardOf(); !online() {
		t.Error("silent although it said something")
	}
}
