package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral/policy"
)

// Binds, secrets and variables of all levels count together.
func TestSandboxesOfAllLevels(t *testing.T) {
	c := mustParse(t, `{
  sandbox: {binds: ["/srv/a:/a:ro"], secrets: {A: {env: "A"}, B: {env: "B"}}, env: {X: "1", Y: "2"}, network: "none"},
  agents: {
    defaults: {sandbox: {binds: ["~/b:/b"]}},
    list: [{id: "one", sandbox: {binds: ["/srv/c:/c:rw"], secrets: {B: {file: "~/b"}}, env: {Y: ""}, network: "bridge", tmp: "1g"}}],
  },
}`)
	var binds []string
	one := c.Agent("one").Sandbox
	for _, level := range one.Binds {
		binds = append(binds, level.Value...)
	}
	for _, tt := range []struct{ got, want any }{
		{binds, []string{"/srv/a:/a:ro", "~/b:/b", "/srv/c:/c:rw"}},
		{one.Secrets, map[string]Secret{"A": {Env: "A"}, "B": {File: "~/b"}}},
		{one.Env, map[string]string{"X": "1", "Y": ""}},
		{one.Network, policy.Setting[string]{Value: "bridge", Source: policy.Source{File: "corral.json5", Line: 5, Key: "agents.list[0].sandbox.network"}}},
		{one.Tmp.Value, Size(1 << 30)},
		{c.Agent("other").Sandbox.Secrets, map[string]Secret{"A": {Env: "A"}, "B": {Env: "B"}}},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Error(d)
		}
	}
}

func TestMistakesOfSandboxes(t *testing.T) {
	for text, want := range map[string]string{
		`{sandbox: {binds: ["data:/data"]}}`:                `f:1:20: sandbox.binds[0]: "data:/data" is not right; it has to be SOURCE:TARGET, or that with :ro or :rw, and both of them absolute paths, such as /srv/data:/data:ro`,
		`{sandbox: {binds: ["/a:/b:z"]}}`:                   "sandbox.binds[0]",
		`{sandbox: {binds: ["~ann:/b"]}}`:                   "sandbox.binds[0]",
		`{sandbox: {timezone: "Mars/Olympus"}}`:             `f:1:22: sandbox.timezone: there is no time zone "Mars/Olympus"; use a name of the IANA database, such as Europe/Berlin, or one like CET-1CEST, as POSIX has them`,
		`{sandbox: {env: {"A-B": "x", OK: ""}}}`:            `f:1:17: sandbox.env: cannot set these variables in the sandbox: not names of variables: "A-B"`,
		`{sandbox: {env: {A: 1}}}`:                          "sandbox.env.A",
		`{sandbox: {env: {corral_prepend_path: "/x"}}}`:     "not allowed: corral_prepend_path",
		`{sandbox: {timezone: "Local"}}`:                    `there is no time zone "Local"`,
		`{sandbox: {timezone: "europe"}}`:                   `there is no time zone "europe"`,
		`{sandbox: {timezone: "UTC+99"}}`:                   `there is no time zone "UTC+99"`,
		`{sandbox: {secrets: {"../x": {env: "A"}}}}`:        "a secret has a name",
		`{sandbox: {secrets: {X: {env: "A", file: "/a"}}}}`: "one of the keys file and env",
		`{sandbox: {secrets: {X: {}}}}`:                     "one of the keys file and env",
		`{sandbox: {secrets: {X: {env: "A-B"}}}}`:           "sandbox.secrets.X.env",
		`{sandbox: {secrets: {X: "value"}}}`:                "sandbox.secrets.X",
		`{sandbox: {secrets: {X: {value: "value"}}}}`:       "there is no such key",
		`{sandbox: {openFiles: 3}}`:                         "out of range",
		`{sandbox: {workspaceSize: "many"}}`:                "sandbox.workspaceSize",
		`{sandbox: {workspaceMedium: "tape"}}`:              `there is no "tape"; use disk, memory`,
		`{sandbox: {outputRate: "1m"}}`:                     "sandbox.outputRate",
		`{sandbox: {lifetime: -1}}`:                         "out of range",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant\n%s", text, err, want)
		}
	}
}

// A tilde alone is the home directory. Whether a sandbox may have it is decided by package
// sandbox, which refuses it.
func TestBindsOfHomes(t *testing.T) {
	c := mustParse(t, `{sandbox: {binds: ["~:/home:ro", "~/work:/data"]}}`)
	var got []string
	for _, bind := range c.Agent("one").Sandbox.Binds[0].Value {
		got = append(got, ExpandHome(bind, "/home/ann"))
	}
	if d := cmp.Diff([]string{"/home/ann:/home:ro", "/home/ann/work:/data"}, got); d != "" {
		t.Error(d)
	}
	for path, want := range map[string]string{"~": "/home/ann", "~ann": "~ann", "~ann:/x": "~ann:/x", "/~": "/~"} {
		if got := ExpandHome(path, "/home/ann"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestTimeZones(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir()) // which is looked into first
	for _, zone := range []string{"Europe/Berlin", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires", "EST5EDT", "JST-9", "CET-1CEST,M3.5.0,M10.5.0/3", "NZST-12:00:00NZDT-13:00:00,M10.1.0,M3.3.0"} {
		c := mustParse(t, `{sandbox: {timezone: "`+zone+`"}}`)
		if got := c.Agent("one").Sandbox.TimeZone.Value; got != zone {
			t.Errorf("%q, want %q", got, zone)
		}
	}
}
