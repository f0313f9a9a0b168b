//go:build linux

package login

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// given is what a snapshot of a profile that is one file says.
func given(t *testing.T, file string, s snapshot) *strings.Reader {
	t.Helper()
	w := watch{path: file, content: true}
	w.state, _ = w.look()
	s.watches = []watch{w}
	return strings.NewReader(s.encode())
}

func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".profile")
	write(t, file, "x")
	var table Table
	use := func(env, dir string) Use { return table.Use("/bin/sh", []string{"HOME=/h", env}, dir) }
	none := func(u Use, what string) {
		t.Helper()
		if u.Env != nil || u.Take != nil || u.Why != "" {
			t.Fatalf("%s: %+v", what, u)
		}
	}
	none(use("A=1", "/"), "first")
	u := use("A=1", "/")
	if u.Env != nil || u.Take == nil {
		t.Fatalf("second: %+v", u)
	}
	none(use("A=1", "/"), "while it is taken")
	none(use("A=2", "/"), "another environment")
	none(use("A=2", "/"), "another environment, while one is taken")
	u.Take(given(t, file, snapshot{env: []string{"A=3", ProcessID + "=" + Placeholder}}))
	if u := use("A=1", "/"); !slices.Equal(u.Env, []string{"A=3"}) || u.Take != nil {
		t.Fatalf("third: %+v", u)
	}
	none(use("A=4", "/"), "another environment")
	none(use("A=1", "/tmp"), "another directory")

	write(t, file, "xy") // at once another attempt would be too early
	none(use("A=1", "/"), "another profile, at once")
	for _, e := range table.list {
		e.tried = time.Now().Add(-rest)
	}
	u = use("A=1", "/")
	if u.Env != nil || u.Take == nil {
		t.Fatalf("another profile: %+v", u)
	}
	u.Take(given(t, file, snapshot{why: "it is so"}))
	if u := use("A=1", "/"); u.Env != nil || u.Why != "it is so" || u.Take != nil {
		t.Fatalf("refused: %+v", u)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{"", "taken\x00", "taken\x00\x00A=1\x00\x00", encoded(snapshot{again: true, env: []string{"A=9"}})} {
		for _, e := range table.list {
			e.tried = time.Now().Add(-rest)
		}
		if u = use("A=1", "/"); u.Take == nil {
			t.Fatalf("nothing is known: %+v", u)
		}
		if answer == "" {
			u.Take(nil)
		} else {
			u.Take(strings.NewReader(answer))
		}
		none(use("A=1", "/"), fmt.Sprintf("after %q", answer))
	}
}

func encoded(s snapshot) string {
	s.watches = []watch{{path: "/", state: "x"}}
	return s.encode()
}

// Environments that come once push none out that has a snapshot.
func TestTableIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".profile")
	var table Table
	table.Use("/bin/sh", []string{"A=1"}, "/")
	table.Use("/bin/sh", []string{"A=1"}, "/").Take(given(t, file, snapshot{env: []string{"A=1"}}))
	for i := range 10 * maxEntries {
		table.Use("/bin/sh", []string{fmt.Sprint("B=", i)}, "/")
	}
	if len(table.list) != maxEntries {
		t.Errorf("%d entries", len(table.list))
	}
	if table.Use("/bin/sh", []string{"A=1"}, "/").Env == nil {
		t.Error("the snapshot is gone")
	}
	n := len(table.list)
	table.Use("/bin/sh", []string{"A=" + strings.Repeat("x", maxKey)}, "/")
	if u := table.Use("/bin/sh", []string{"A=" + strings.Repeat("x", maxKey)}, "/"); u.Take != nil || len(table.list) != n {
		t.Error("an environment that is too large is kept")
	}
}

func TestEncode(t *testing.T) {
	for _, s := range []snapshot{
		{env: []string{"A=1", "B="}, watches: []watch{{path: "/a", state: "1", content: true}, {path: "/b", state: ""}}},
		{why: "so", watches: []watch{{path: "/a"}}},
	} {
		got, ok := decode(s.encode())
		if !ok || fmt.Sprint(got) != fmt.Sprint(s) {
			t.Errorf("%+v, want %+v", got, s)
		}
	}
}

func TestShell(t *testing.T) {
	for _, tt := range []struct{ args, plain string }{
		{"/bin/sh -lc true", "/bin/sh -c true"},
		{"/bin/bash -lc true", "/bin/bash -c true"},
		{"/bin/bash -l -c true", "/bin/bash -c true"},
		{"/bin/sh -l -c true", "/bin/sh -c true"},
		{"/bin/sh -c true", ""},
		{"sh -lc true", ""},
		{"/bin/sh -lc", ""},
		{"/bin/sh -l -c", ""},
		{"/bin/sh -c -l true", ""},
		{"/bin/sh -lc true x", ""},
		{"/bin/sh", ""},
		{"/bin/zsh -lc true", ""},
		{"", ""},
	} {
		plain, ok := Shell(strings.Fields(tt.args))
		if got := strings.Join(plain, " "); got != tt.plain || ok != (got != "") {
			t.Errorf("%q: %q, %v, want %q", tt.args, got, ok, tt.plain)
		}
	}
}

// FuzzTrace reads what a container may have written.
func FuzzTrace(f *testing.F) {
	for _, line := range []string{"[ -d /a ]", ". /a/b.sh", "A=1 date", "command -v x", "eval f() { :; } 2>/dev/null", "export A='x y", "'[' -e 'a b' ']'", "function f", "=x", "\\"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := newReading("/bin/sh", "/h", "/", "/usr/bin:rel::/bin")
		r.command(line)
		r.text(line)
		if len(r.functions) > maxFunctions && r.why == "" || len(r.watches) > maxWatches && r.why == "" {
			t.Error("too much, and no reason")
		}
	})
}
