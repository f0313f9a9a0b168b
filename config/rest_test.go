package config

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of a file with mistakes there is what they are not about, and texts of a wrong
// form as they are.
func TestRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corral.json5")
	writeFile(t, path, `{
  nosuch: {sandbox: {mode: "all"}},
  sandbox: {
    mode: "some", user: "0:0", network: "host", pids: "many", memory: "3 pounds", image: 7, binds: ["data:/data", 3, "/etc:/x"],
    secrets: {X: "value", Y: {env: "A"}}, timezone: "Mars/Olympus",
  },
  agents: {list: [{sandbox: {image: "nobody:1"}}, {id: "one", sandbox: {image: "one:1"}}, {id: "one"}, "two"]},
  tools: {exec: {rules: [{}, {deny: "rm"}]}},
}`)
	c := Rest(path)
	if c == nil {
		t.Fatal("there is none")
	}
	box, one := c.Agent("other").Sandbox, c.Agent("one")
	for _, tt := range []struct{ got, want any }{
		{box.Mode.Value, ModeOff},
		{box.User.Value, "0:0"},
		{box.Network.Value, "host"},
		{box.Network.Source.String(), path + ":4 sandbox.network"},
		{box.Pids.Value, Whole(512)},
		{box.Image.Value, ""},
		{box.Binds[0].Value, []string{"data:/data", "/etc:/x"}},
		{box.Secrets, map[string]Secret{"Y": {Env: "A"}}},
		{one.Sandbox.Image.Value, "one:1"},
		{len(one.Tools.Exec.Rules), 1},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Error(d)
		}
	}
	for _, text := range []string{"", "{", "[]", `"x"`, "{a: 1,, b: 2}"} {
		writeFile(t, path, text)
		if c := Rest(path); c != nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
	if c := Rest(filepath.Join(t.TempDir(), "none")); c != nil {
		t.Errorf("%+v", c)
	}
}

// Whatever is wrong, what is left can be used.
func FuzzRest(f *testing.F) {
	for _, text := range []string{
		`{sandbox: {binds: [1, "x"], user: 7}}`, `{agents: {list: [{id: ""}, {id: "a"}, {id: "a"}]}}`, `{sandbox: 3, tools: []}`,
		`{sandbox: {secrets: {"": {env: "A"}, X: {env: "1", file: "/x"}}}}`, `{tools: {exec: {rules: [{allow: "a", deny: "b"}], safeBinProfiles: {x: 1}}}}`,
		`{"": 1, sandbox: {"": 2, memory: "9999t", workspaceSize: "1k"}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := rest("f", []byte(text))
		if _, err := Parse("f", []byte(text)); err == nil && c == nil {
			t.Fatal("there is nothing left of what is right")
		}
	})
}
