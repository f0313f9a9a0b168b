package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

func TestOverrides(t *testing.T) {
	all := Overrides{Host: corral.HostGateway, Security: policy.SecurityAllowlist, Ask: policy.AskOnMiss, Node: "mac-1"}
	for _, tc := range []struct {
		text    string
		from    Overrides
		want    Overrides
		changed bool
	}{
		// `/exec` を使用して、`host`、`security`、`ask`、`node` の **セッション単位の** デフォルト値を設定します。
		{"/exec host=gateway security=allowlist ask=on-miss node=mac-1", Overrides{}, all, true},
		{"host:gateway security:allowlist ask:on-miss node:mac-1", Overrides{}, all, true},
		{"/EXEC: Host=Gateway  SECURITY=AllowList\task=ON-MISS node=mac-1 ", Overrides{}, all, true},
		// 現在の値を表示するには、引数なしで `/exec` を送信します。
		{"/exec", all, all, false}, {"", all, all, false}, {"  ", Overrides{}, Overrides{}, false},
		{"ask=always", all, Overrides{Host: corral.HostGateway, Security: policy.SecurityAllowlist, Ask: policy.AskAlways, Node: "mac-1"}, true},
		{"node= host=", all, Overrides{Security: policy.SecurityAllowlist, Ask: policy.AskOnMiss}, true},
		{"node=10.0.0.1:22=x", Overrides{}, Overrides{Node: "10.0.0.1:22=x"}, true},
		{"host=sandbox security=full ask=off", Overrides{}, Overrides{Host: corral.HostSandbox, Security: policy.SecurityFull, Ask: policy.AskOff}, true},
	} {
		got, changed, err := tc.from.Apply(tc.text)
		if err != nil || changed != tc.changed || got != tc.want {
			t.Errorf("%s: %+v, %v, %v", tc.text, got, changed, err)
		}
	}
	if got := all.String(); got != "host=gateway security=allowlist ask=on-miss node=mac-1" {
		t.Error(got)
	}
	if got := (Overrides{}).String(); got != "" {
		t.Error(got)
	}
}

func TestOverridesRefuse(t *testing.T) {
	from := Overrides{Node: "n"}
	for text, says := range map[string]string{
		"host=x":                            `Unrecognized exec host "x". Valid hosts: sandbox, gateway, node.`,
		"security=ful":                      `Unrecognized exec security "ful". Valid security values: deny, allowlist, full.`,
		"ask=never":                         `Unrecognized exec ask "never". Valid ask values: off, on-miss, always.`,
		"speed=1":                           `Unrecognized exec option "speed". Valid options: host=, security=, ask=, node=.`,
		"gateway":                           `Unrecognized exec option "gateway". Valid options: host=, security=, ask=, node=.`,
		"ask=off hots=gateway":              `Unrecognized exec option "hots"`,
		"ask=off ask=always":                "/exec has ask twice",
		"node=" + strings.Repeat("n", 257):  "257 bytes",
		"host=" + strings.Repeat("n", 2000): "2005 bytes; 1024 are the most",
		"host=" + strings.Repeat("n", 1000): `"` + strings.Repeat("n", 59) + `…"`,
	} {
		got, changed, err := from.Apply(text)
		if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), says) || changed || got != from || corral.Hint(err) == "" {
			t.Errorf("%.40s: %+v, %v, %v", text, got, changed, err)
		}
	}
}

// Overrides take the place of the file, for a session.
func TestWith(t *testing.T) {
	c := mustParse(t, `{tools: {exec: {host: "node", security: "full", ask: "off", node: "a"}}}`)
	a := c.Agent("main")
	b := a.With(Overrides{Security: policy.SecurityDeny, Node: "b"})
	session := policy.Source{Name: "session"}
	if b.Tools.Exec.Security != (policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: session}) || b.Tools.Exec.Node != (policy.Setting[string]{Value: "b", Source: session}) {
		t.Errorf("%+v", b.Tools.Exec)
	}
	if b.Tools.Exec.Ask != a.Tools.Exec.Ask || b.Tools.Exec.Host != a.Tools.Exec.Host {
		t.Error("what is not overridden has changed")
	}
	// これは **セッション状態のみ** を更新し、コンフィグには反映されません。
	if d := cmp.Diff(c.Agent("main").Tools.Exec.Security, a.Tools.Exec.Security); d != "" || a.Tools.Exec.Security.Value != policy.SecurityFull {
		t.Error(d)
	}
}

func FuzzOverrides(f *testing.F) {
	for _, seed := range []string{"", "/exec host=gateway security=allowlist ask=on-miss node=mac-1", "host:node node:a=b", "ask= =", "::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, _, err := Overrides{}.Apply(text)
		if err != nil {
			return
		}
		again, _, err := Overrides{}.Apply(o.String())
		if err != nil || again != o {
			t.Fatalf("%q is %+v, written %q and read %+v: %v", text, o, o.String(), again, err)
		}
	})
}

func TestSenders(t *testing.T) {
	kim := Sender{Provider: "telegram", ID: "1234", From: "telegram:1234", E164: "+15550100", Name: "Kim", Username: "kim_k", Tag: "kim#1"}
	for _, tc := range []struct {
		list    string
		sender  Sender
		allowed bool
	}{
		{`{}`, kim, false}, {`[]`, kim, false},
		{`["*"]`, kim, true}, {`["*"]`, Sender{}, true}, {`{"*": ["*"]}`, Sender{}, true}, {`{telegram: ["*"]}`, Sender{}, false},
		{`["1234"]`, kim, true}, {`[" 1234 "]`, kim, true}, {`["+15550100"]`, kim, true}, {`["telegram:1234"]`, kim, true},
		{`["kim_k"]`, kim, false}, {`["Kim"]`, kim, false}, {`["123"]`, kim, false},
		{`["id:1234"]`, kim, true}, {`["ID: 1234"]`, kim, true}, {`["from:telegram:1234"]`, kim, true}, {`["e164:+15550100"]`, kim, true},
		{`["name:kim"]`, kim, true}, {`["username:@KIM_K"]`, kim, true}, {`["tag:kim#1"]`, kim, true}, {`["tag:kim"]`, kim, false}, {`["id:Kim"]`, kim, false},
		{`{telegram: ["1234"]}`, kim, true}, {`{Telegram: ["1234"]}`, kim, true}, {`{discord: ["1234"]}`, kim, false}, {`{discord: [], "*": ["1234"]}`, kim, true},
		{`["id:", "x"]`, Sender{}, false}, {`["name:"]`, Sender{Name: ""}, false}, {`["@"]`, Sender{ID: "@"}, false},
	} {
		c := mustParse(t, `{commands: {allowFrom: `+tc.list+`}}`)
		err := c.Commands.CheckSender(tc.sender)
		if (err == nil) != tc.allowed {
			t.Errorf("%s: %v", tc.list, err)
		}
		if err != nil && (!errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "corral.json5:1 commands.allowFrom") || !strings.Contains(corral.Hint(err), "commands.allowFrom")) {
			t.Errorf("%s: %v", tc.list, err)
		}
	}
	if err := Default().Commands.CheckSender(kim); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) != "add the sender to commands.allowFrom.telegram" || !strings.Contains(err.Error(), "commands.allowFrom (default)") {
		t.Errorf("%v, %s", err, corral.Hint(err))
	}
}

// Every gate has to be open, and all that are not are named.
func TestElevated(t *testing.T) {
	kim := Sender{Provider: "telegram", ID: "1234"}
	for _, tc := range []struct{ text, says, hint string }{
		{`{}`, "elevated is not available: failing gates: allowFrom (tools.elevated.allowFrom.telegram (default))", "leave out elevated, or change tools.elevated.allowFrom.telegram"},
		{`{tools: {elevated: {allowFrom: ["1234"]}}}`, "", ""},
		{`{tools: {elevated: {enabled: false, allowFrom: {telegram: ["99"]}}}}`,
			"failing gates: enabled (corral.json5:1 tools.elevated.enabled), allowFrom (corral.json5:1 tools.elevated.allowFrom)",
			"leave out elevated, or change tools.elevated.enabled and tools.elevated.allowFrom.telegram"},
		{`{tools: {elevated: {allowFrom: ["1234"]}}, agents: {list: [{id: "a", tools: {elevated: {enabled: false}}}]}}`,
			"failing gates: enabled (corral.json5:1 agents.list[0].tools.elevated.enabled)", "leave out elevated, or change agents.list[0].tools.elevated.enabled"},
		{`{tools: {elevated: {allowFrom: ["1234"]}}, agents: {list: [{id: "a", tools: {elevated: {allowFrom: ["5"]}}}]}}`,
			"failing gates: allowFrom (corral.json5:1 agents.list[0].tools.elevated.allowFrom)", "change agents.list[0].tools.elevated.allowFrom.telegram"},
		{`{tools: {elevated: {enabled: false, allowFrom: ["5"]}}, agents: {list: [{id: "a", tools: {elevated: {enabled: true, allowFrom: ["*"]}}}]}}`,
			"enabled (corral.json5:1 tools.elevated.enabled), allowFrom (corral.json5:1 tools.elevated.allowFrom)", "tools.elevated.enabled and tools.elevated.allowFrom"},
	} {
		err := mustParse(t, tc.text).Agent("a").Tools.Elevated.Check(kim)
		if tc.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.text, err)
			}
			continue
		}
		if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(corral.Hint(err), tc.hint) {
			t.Errorf("%s: %v; %s", tc.text, err, corral.Hint(err))
		}
	}
}

func TestElevatedLevel(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		level string
		asked *bool
		want  Level
	}{
		{level: "off", asked: nil, want: ElevatedOff}, {level: "off", asked: &yes, want: ElevatedOn}, {level: "off", asked: &no, want: ElevatedOff},
		{level: "on", asked: nil, want: ElevatedOn}, {level: "ask", asked: nil, want: ElevatedOn}, {level: "ask", asked: &yes, want: ElevatedOn},
		{level: "full", asked: nil, want: ElevatedFull}, {level: "full", asked: &yes, want: ElevatedFull}, {level: "full", asked: &no, want: ElevatedOff},
	} {
		e := mustParse(t, `{tools: {elevated: {default: "`+tc.level+`"}}}`).Agent("a").Tools.Elevated
		if got := e.Level(tc.asked); got != tc.want {
			t.Errorf("%s, %v: %s", tc.level, tc.asked, got)
		}
	}
	if got := Default().Agent("a").Tools.Elevated.Level(nil); got != ElevatedOff {
		t.Error(got)
	}
}
