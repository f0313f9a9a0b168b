package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/json5"
	"github.com/corral-exec/corral/policy"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "corral.json5")
	c, err := Load(path)
	if err != nil || c.Agent("a").Tools.Exec.Security.Value != policy.SecurityAllowlist || c.File != path {
		t.Fatalf("a missing file: %+v, %v", c, err)
	}
	writeFile(t, path, `{tools: {exec: {security: "deny"}}}`)
	c, err = Load(path)
	if err != nil || c.Agent("a").Tools.Exec.Security.Source.String() != path+":1 tools.exec.security" {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, tc := range []struct {
		name   string
		damage func()
		kind   error
		says   string
	}{
		{"a mistake", func() { writeFile(t, path, `{tool: 1}`) }, corral.ErrInvalid, path + ":1:2: tool: there is no such key"},
		{"nothing", func() { writeFile(t, path, "") }, corral.ErrInvalid, path + ":1:1: the text ends"},
		{"too large", func() { writeFile(t, path, strings.Repeat(" ", json5.MaxSize+1)) }, corral.ErrInvalid, "bytes"},
		{"writable by all", func() { writeFile(t, path, `{}`); chmod(t, path, 0o602) }, corral.ErrDenied, "every user of this machine can write"},
		{"a directory", func() { remove(t, path); mkdir(t, path) }, corral.ErrInvalid, "no regular file"},
	} {
		tc.damage()
		if c, err := Load(path); !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) || c != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultPath(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		uid  int
		home string
		want string
	}{
		{map[string]string{"CORRAL_CONFIG": "x.json5", "XDG_CONFIG_HOME": "/xdg"}, 0, "/root", "x.json5"},
		{map[string]string{"XDG_CONFIG_HOME": "/xdg"}, 0, "/root", "/xdg/corral/corral.json5"},
		{map[string]string{"XDG_CONFIG_HOME": "xdg"}, 0, "/root", "/etc/corral/corral.json5"},
		{nil, 0, "/root", "/etc/corral/corral.json5"}, {nil, 1000, "/home/k", "/home/k/.config/corral/corral.json5"}, {nil, 1000, "", ""},
	} {
		if got := DefaultPath(func(name string) string { return tc.env[name] }, tc.uid, tc.home); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
	if got := ExpandHome("~/a", "/h") + ExpandHome("/a", "/h") + ExpandHome("~k/a", "/h"); got != "/h/a/a~k/a" {
		t.Error(got)
	}
}

// openclaw config set agents.list[0].tools.exec.node "node-id-or-name"
func TestSeedSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corral.json5")
	writeFile(t, path, "// mine\n{\n  agents: {\n    list: [\n      { id: \"main\" }, // the first\n    ],\n  },\n}\n")
	c, err := Edit{File: path}.Set("agents.list[0].tools.exec.node", "node-id-or-name")
	if err != nil {
		t.Fatal(err)
	}
	want := "// mine\n{\n  agents: {\n    list: [\n      { id: \"main\", tools: { exec: { node: \"node-id-or-name\" } } }, // the first\n    ],\n  },\n}\n"
	if got := readFile(t, path); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := c.Agent("main").Tools.Exec.Node; got.Value != "node-id-or-name" || got.Source.Line != 5 {
		t.Errorf("%+v", got)
	}
	// openclaw config get agents.list
	if v, err := c.Get("agents.list"); err != nil || string(v.Value) != `[{"id":"main","tools":{"exec":{"node":"node-id-or-name"}}}]` {
		t.Errorf("%s, %v", v.Value, err)
	}
}

func TestSet(t *testing.T) {
	for _, tc := range []struct{ text, key, value, want string }{
		{"{}", "tools.exec.security", "deny", "{\n  tools: { exec: { security: \"deny\" } },\n}"},
		{"{}", "tools.exec.security", "'deny'", "{\n  tools: { exec: { security: 'deny' } },\n}"},
		{"{}", "tools.exec.node", "7", "{\n  tools: { exec: { node: \"7\" } },\n}"},
		{"{}", "tools.exec.node", "mac 1's", ""},
		{"{}", "tools.exec.timeout", "1.5", "{\n  tools: { exec: { timeout: 1.5 } },\n}"},
		{"{}", "tools.exec.timeout", "soon", ""}, {"{}", "tools.exec.timeout", "-1", ""}, {"{}", "tools.exec.securty", "deny", ""},
		{"{}", "sandbox.memory", "512m", "{\n  sandbox: { memory: \"512m\" },\n}"}, {"{}", "sandbox.memory", "536870912", "{\n  sandbox: { memory: 536870912 },\n}"}, {"{}", "sandbox.pids", "unlimited", "{\n  sandbox: { pids: \"unlimited\" },\n}"},
		{"{}", "tools.exec.rules[0]", `{allow: "/bin/ls"}`, "{\n  tools: { exec: { rules: [{allow: \"/bin/ls\"}] } },\n}"},
		{"{}", "tools.exec.rules[0].allow", "/bin/ls", "{\n  tools: { exec: { rules: [{ allow: \"/bin/ls\" }] } },\n}"},
		{"{}", "agents.list[0].tools.exec.node", "n", ""}, // it has no id
		{"{agents: {list: []}}", "agents.list[1].id", "a", ""},
		{"{}", "agents.list[0].id", "a", "{\n  agents: { list: [{ id: \"a\" }] },\n}"},
		{"{}", "tools", "{}", "{\n  tools: {},\n}"}, {"{}", "tools", "[]", ""}, {"{}", "", "{}", ""},
		{"{sandbox: {mode: 'x'}}", "tools.exec.timeout", "1", ""}, // another mistake
	} {
		path := filepath.Join(t.TempDir(), "c.json5")
		writeFile(t, path, tc.text)
		_, err := (Edit{File: path}).Set(tc.key, tc.value)
		got := readFile(t, path)
		switch {
		case tc.want == "" && (!errors.Is(err, corral.ErrInvalid) || got != tc.text):
			t.Errorf("%s = %s in %s: %v\n%s", tc.key, tc.value, tc.text, err, got)
		case tc.want != "" && (err != nil || got != tc.want):
			t.Errorf("%s = %s in %s: %v\n%s", tc.key, tc.value, tc.text, err, got)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestUnset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	writeFile(t, path, "{\n  tools: {\n    exec: {\n      ask: \"off\", // why\n      timeout: 1,\n    },\n  },\n}\n")
	c, err := Edit{File: path}.Unset("tools.exec.timeout")
	if got := readFile(t, path); err != nil || got != "{\n  tools: {\n    exec: {\n      ask: \"off\", // why\n    },\n  },\n}\n" {
		t.Errorf("%s, %v", got, err)
	}
	if got := c.Agent("a").Tools.Exec.Timeout.Source.Name; got != "default" {
		t.Error(got)
	}
	if _, err := (Edit{File: path}).Unset("tools.exec.node"); err != nil {
		t.Error(err)
	}
	if _, err := (Edit{File: path}).Unset("tools.exec.nod"); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

// A file that was changed meanwhile stays as it is.
func TestEditVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	c, err := Edit{File: path, Version: empty(path).Version()}.Set("sandbox.memory", "1g")
	if err != nil {
		t.Fatal(err)
	}
	old := c.Version()
	if c, err = (Edit{File: path, Version: old}).Set("sandbox.memory", "2g"); err != nil || c.Version() == old {
		t.Fatal(err)
	}
	text := readFile(t, path)
	_, err = Edit{File: path, Version: old}.Unset("sandbox.memory")
	if got := readFile(t, path); !errors.Is(err, corral.ErrConflict) || got != text {
		t.Errorf("%v\n%s", err, got)
	}
}

// Values are what applies, and where to change it.
func TestValues(t *testing.T) {
	c, err := Parse("c", []byte(`{tools: {exec: {ask: "off", node: "n"}}, agents: {defaults: {tools: {exec: {node: "m"}}}, list: [{id: "a", workspace: "/w"}]}, gateway: {listen: "127.0.0.1:1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string][]string{
		"a": {`agents.list[0].tools.exec.ask "off" tools.exec.ask`, `agents.list[0].tools.exec.node "m" agents.defaults.tools.exec.node`, `agents.list[0].workspace "/w" agents.list[0].workspace`, `agents.list[0].sandbox.memory "2g" default`, `gateway.listen "127.0.0.1:1" gateway.listen`},
		"":  {`tools.exec.ask "off" tools.exec.ask`, `agents.defaults.tools.exec.node "m" agents.defaults.tools.exec.node`, `agents.defaults.workspace null default`},
	} {
		var got []string
		for _, v := range c.Values(agent) {
			got = append(got, fmt.Sprintf("%s %s %s%s", v.Key, v.Value, v.Source.Key, v.Source.Name))
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("of %q: %s is missing in %q", agent, w, got)
			}
		}
		if slices.ContainsFunc(got, func(s string) bool {
			return strings.HasPrefix(s, "agents.defaults.sandbox") || strings.HasPrefix(s, "$schema")
		}) {
			t.Errorf("of %q: %q", agent, got)
		}
	}
}

// A file keeps its mode, a link stays one, and a new file is private.
func TestSetKeepsTheFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has neither
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.json5"), filepath.Join(dir, "link.json5")
	writeFile(t, path, "{}")
	chmod(t, path, 0o640)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := (Edit{File: link}).Set("tools.exec.ask", "always"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode().Perm() != 0o640 || !strings.Contains(readFile(t, path), "always") {
		t.Errorf("%v, %v", info, err)
	}
	fresh := filepath.Join(dir, "a", "b", "c.json5")
	if _, err := (Edit{File: fresh}).Set("tools.exec.ask", "always"); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, fresh); got != "{\n  tools: { exec: { ask: \"always\" } },\n}\n" {
		t.Errorf("%q", got)
	}
	if info, err = os.Stat(fresh); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "c.json5")
	if _, err := Create(path, []byte("{x: 1}")); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Create(path, []byte("{}")); err != nil {
		t.Error(err)
	}
	if _, err := Create(path, []byte("{ }")); !errors.Is(err, corral.ErrDenied) || readFile(t, path) != "{}" {
		t.Error(err)
	}
}

func security(l *Live) policy.Setting[policy.Security] {
	return l.Config().Agent("a").Tools.Exec.Security
}

// A change counts at once; a mistake closes until it is mended.
func TestLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	l, err := Open(path, false)
	if err != nil || security(l).Value != policy.SecurityAllowlist {
		t.Fatal(err)
	}
	first := l.Config()
	writeFile(t, path, `{tools: {exec: {security: "full"}}}`)
	if got := security(l).Value; got != policy.SecurityFull || l.Config() == first {
		t.Error("appeared:", got)
	}
	if second := l.Config(); second != l.Config() {
		t.Error("what did not change is made anew")
	}
	// The same size, and the time put back.
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, `{tools: {exec: {security: "deny"}}}`)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := security(l).Value; got != policy.SecurityDeny {
		t.Error("changed:", got)
	}
	writeFile(t, path, `{tools: {exec: {security: "full"}}`)
	if c := l.Config(); c.Err == nil || security(l).Value != policy.SecurityDeny || !strings.Contains(security(l).Source.Name, "the end of the text where ',' or '}' is expected") || c != l.Config() {
		t.Errorf("broken: %+v", security(l))
	}
	writeFile(t, path, `{tools: {exec: {security: "full"}}}`)
	if c := l.Config(); c.Err != nil || security(l).Value != policy.SecurityFull {
		t.Errorf("mended: %+v", security(l))
	}
	remove(t, path)
	for range 2 {
		if c := l.Config(); !errors.Is(c.Err, corral.ErrUnavailable) || security(l).Value != policy.SecurityDeny {
			t.Errorf("gone: %+v", security(l))
		}
	}
	writeFile(t, path, `{}`)
	if c := l.Config(); c.Err != nil || security(l).Value != policy.SecurityAllowlist {
		t.Errorf("back: %+v", security(l))
	}
	chmod(t, path, 0o666)
	if c := l.Config(); runtime.GOOS != "windows" && !errors.Is(c.Err, corral.ErrDenied) {
		t.Errorf("writable by all: %v", c.Err)
	}
	chmod(t, path, 0o600)
	if c := l.Config(); c.Err != nil {
		t.Error(c.Err)
	}
}

// Changes that follow each other faster than the clock of the file system, and
// do not change the size, are all seen.
func TestLiveSeesQuickChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	writeFile(t, path, `{}`)
	l, err := Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		want := []policy.Security{policy.SecurityFull, policy.SecurityDeny}[i%2]
		writeFile(t, path, `{tools: {exec: {security: "`+string(want)+`"}}}`)
		if got := security(l).Value; got != want {
			t.Fatalf("change %d: %s, want %s", i, got, want)
		}
	}
}

// Many ask, while the file changes.
func TestLiveFromManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	writeFile(t, path, `{}`)
	l, err := Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 100 {
				if security(l).Value == "" {
					t.Error("nothing applies")
				}
			}
		})
	}
	for i := range 50 {
		writeFile(t, path, []string{`{tools: {exec: {security: "full"}}}`, `{`}[i%2])
	}
	g.Wait()
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json5")
	if _, err := Open(path, true); !errors.Is(err, corral.ErrInvalid) || !errors.Is(err, fs.ErrNotExist) || corral.Hint(err) == "" {
		t.Error(err)
	}
	writeFile(t, path, "{")
	if _, err := Open(path, false); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

// Whatever a file has, it is a configuration or its mistakes, and what Get
// shows of it is what it has.
func FuzzConfig(f *testing.F) {
	for _, text := range goodFiles {
		f.Add([]byte(text))
	}
	for _, bad := range badFiles {
		f.Add([]byte(bad.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			var all *Error
			if !errors.As(err, &all) || len(all.Mistakes) == 0 || strings.Contains(FirstLine(err), "\n") {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, key := range Keys() {
			if _, err := c.Get(key); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
		for _, id := range append(c.Agents(), "somebody") {
			a := c.Agent(id)
			if a.Tools.Exec.Security.Value == "" || a.Tools.Exec.Host.Value == "" {
				t.Fatalf("%+v", a)
			}
		}
	})
}

// What could never count is a mistake, and not accepted and ignored.
func TestIgnoredIsAMistake(t *testing.T) {
	for _, text := range []string{
		`{ agents: { list: [{ id: "nightly " }] } }`, `{ agents: { list: [{ id: "a/b" }] } }`, `{ agents: { list: [{ id: "日本" }] } }`, `{ agents: { list: [{ id: "default" }] } }`,
		`{ node: { ports: ["70000"] } }`, `{ node: { ports: ["3099-3000"] } }`, `{ node: { ports: ["3000-70000"] } }`,
		`{ sandbox: { cpus: 1e-10 } }`, // an engine rounds it to 0, which means no limit
	} {
		if _, err := Parse("x", []byte(text)); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Parse("x", []byte(`{ node: { ports: ["1", "3000-3000", "65535"] }, sandbox: { cpus: 0.01 }, agents: { list: [{ id: "_a.b-1" }] } }`)); err != nil {
		t.Error(err)
	}
}
