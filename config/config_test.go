package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("corral.json5", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGoodFiles(t *testing.T) {
	for _, text := range goodFiles {
		if _, err := Parse("f", []byte(text)); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, f := range badFiles {
		_, err := Parse("f", []byte(f.text))
		if err == nil || err.Error() != f.says {
			t.Errorf("%s\n%v\nwant\n%s", f.text, err, f.says)
		}
		var all *Error
		if !errors.As(err, &all) || len(all.Mistakes) != strings.Count(f.says, "\n")+1 || !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s\n%#v", f.text, err)
		}
	}
}

func TestSyntaxMistake(t *testing.T) {
	_, err := Parse("/etc/corral.json5", []byte("{\n  tools: {\n    exec: ful\n}}"))
	if err == nil || err.Error() != "/etc/corral.json5:3:11: ful is no value; a string needs quotes" || !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}

// A file of another kind is not a mistake for each of its keys.
func TestMistakesAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "key%d: 1,\n", i)
	}
	_, err := Parse("f", []byte("{"+text.String()+"}"))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxMistakes+1 || lines[maxMistakes] != "f:51:1: and 950 more mistakes from here on" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	if got := FirstLine(err); !strings.HasSuffix(got, "(and 50 more)") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}

// No file is one with no key in it, which nothing has to check.
func TestNoFileIsAnEmptyOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.json5")
	want, err := Parse(path, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v, not %+v", err, got, want)
	}
	if want, err = Parse("", []byte("{}")); err != nil || !reflect.DeepEqual(Default(), want) {
		t.Errorf("%v: %+v, not %+v", err, Default(), want)
	}
}

// What is built in, as the documents that Corral comes from have it.
func TestDefaults(t *testing.T) {
	a := Default().Agent("main")
	e := a.Tools.Exec
	for _, tc := range []struct {
		quote     string
		got, want any
	}{
		{"`tools.exec.notifyOnExit` (デフォルト: true)", e.NotifyOnExit.Value, true},
		{"`tools.exec.approvalRunningNoticeMs` (デフォルト: 10000)", e.ApprovalRunningNoticeMs.Value, 10 * time.Second},
		{"`tools.exec.host` (デフォルト: `sandbox`)", e.Host.Value, corral.HostSandbox},
		{"未設定時の Gateway + ノードの場合は `allowlist`", e.Security.Value, policy.SecurityAllowlist},
		{"`tools.exec.ask` (デフォルト: `on-miss`)", e.Ask.Value, policy.AskOnMiss},
		{"`tools.exec.node` (デフォルト: 未設定)", e.Node.Value, ""},
		{"`yieldMs` - 自动后台延迟（默认：10000ms）", e.YieldMs.Value, 10 * time.Second},
		{"`timeout` - 终止超时秒数（默认：1800）", e.Timeout.Value, 30 * time.Minute},
		{"沙箱**默认关闭**", a.Sandbox.Mode.Value, ModeOff},
		{"Gateway/node 执行拒绝 `env.PATH`", string(e.EnvPath.Value), "reject"},
		{"在允许列表模式下，链接操作符和重定向被拒绝。", e.Policy().Chaining.Value || e.Policy().Redirections.Value, false},
		{"明示的に有効化する必要があります", e.ApplyPatch.Enabled.Value, false},
		{"askFallback", e.AskFallback.Value, policy.SecurityDeny},
		{"safe bins", strings.Join(e.SafeBins.Value, " "), "cut uniq head tail tr wc"},
		{"memory", a.Sandbox.Memory.Value, Size(2 << 30)},
		{"cpus", a.Sandbox.CPUs.Value, Count(2)},
		{"pids", a.Sandbox.Pids.Value, Whole(512)},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", tc.quote, tc.got, tc.want)
		}
	}
	if e.Security.Source != (policy.Source{Name: "default"}) {
		t.Error(e.Security.Source)
	}
}

// 例: (the first one of the document)
func TestSeedPathPrepend(t *testing.T) {
	c := mustParse(t, `{
  tools: {
    exec: {
      pathPrepend: ["~/bin", "/opt/oss/bin"]
    }
  }
}`)
	got := c.Agent("main").Tools.Exec.PathPrepend
	want := policy.Setting[[]string]{Value: []string{"~/bin", "/opt/oss/bin"}, Source: policy.Source{File: "corral.json5", Line: 4, Key: "tools.exec.pathPrepend"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// 明示的に有効化する必要があります：
func TestSeedApplyPatch(t *testing.T) {
	c := mustParse(t, `{
  tools: {
    exec: {
      applyPatch: { enabled: true, allowModels: ["gpt-5.2"] }
    }
  }
}`)
	p := c.Agent("main").Tools.Exec.ApplyPatch
	if !p.Enabled.Value || len(p.AllowModels.Value) != 1 || p.AllowModels.Value[0] != "gpt-5.2" || !bool(p.WorkspaceOnly.Value) || p.Enabled.Source.Line != 4 {
		t.Errorf("%+v", p)
	}
}

const levels = `{
  sandbox: { mode: "all", memory: "1g" },
  tools: {
    deny: ["process"],
    exec: {
      security: "full", timeout: 1.5, safeBins: ["cut"],
      rules: [{ deny: "rm -rf", reason: "no" }],
      safeBinProfiles: { jq: { maxPositional: 1 }, yq: {} },
    },
  },
  agents: {
    defaults: {
      workspace: "/srv",
      tools: { exec: { ask: "always", rules: [{ ask: "git push" }], safeBinProfiles: { jq: { maxPositional: 2 } } } },
    },
    list: [
      { id: "one", tools: { deny: [], exec: { security: "deny", safeBins: [],
        rules: [{ allow: "/bin/ls" }, { allow: "/usr/bin/git status", argPattern: "^status" },
        { allow: "/a", runs: "none", writes: "any" }, { allow: "/b", runs: ["/c"], writes: [] }, { allow: "/c", args: ["-x", ""] }, { deny: "rm", args: [] }] } } },
      { id: "two", sandbox: { mode: "off" }, unattended: true, workspace: "/two", tools: { exec: { ask: "off" } } },
    ],
  },
}`

// A key counts from the innermost level, and knows where it stands.
func TestLevels(t *testing.T) {
	c := mustParse(t, levels)
	if d := cmp.Diff([]string{"one", "two"}, c.Agents()); d != "" {
		t.Error(d)
	}
	source := func(line int, key string) policy.Source {
		return policy.Source{File: "corral.json5", Line: line, Key: key}
	}
	one, two, other := c.Agent("one"), c.Agent("two"), c.Agent("other")
	if other.ID != "other" || one.ID != "one" {
		t.Error(other.ID, one.ID)
	}
	for _, tc := range []struct {
		what      string
		got, want any
	}{
		{"one security", one.Tools.Exec.Security, policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: source(17, "agents.list[0].tools.exec.security")}},
		{"two security", two.Tools.Exec.Security, policy.Setting[policy.Security]{Value: policy.SecurityFull, Source: source(6, "tools.exec.security")}},
		{"one ask", one.Tools.Exec.Ask, policy.Setting[policy.Ask]{Value: policy.AskAlways, Source: source(14, "agents.defaults.tools.exec.ask")}},
		{"two ask", two.Tools.Exec.Ask, policy.Setting[policy.Ask]{Value: policy.AskOff, Source: source(20, "agents.list[1].tools.exec.ask")}},
		{"other ask", other.Tools.Exec.Ask, one.Tools.Exec.Ask},
		{"two mode", two.Sandbox.Mode, policy.Setting[Mode]{Value: ModeOff, Source: source(20, "agents.list[1].sandbox.mode")}},
		{"one mode", one.Sandbox.Mode, policy.Setting[Mode]{Value: ModeAll, Source: source(2, "sandbox.mode")}},
		{"two memory", two.Sandbox.Memory, policy.Setting[Size]{Value: 1 << 30, Source: source(2, "sandbox.memory")}},
		{"one workspace", one.Workspace, policy.Setting[string]{Value: "/srv", Source: source(13, "agents.defaults.workspace")}},
		{"two workspace", two.Workspace.Value, "/two"},
		{"two unattended", two.Unattended.Value, true},
		{"timeout", one.Tools.Exec.Timeout, policy.Setting[time.Duration]{Value: 1500 * time.Millisecond, Source: source(6, "tools.exec.timeout")}},
		{"an empty list counts", one.Tools.Exec.SafeBins, policy.Setting[[]string]{Value: []string{}, Source: source(17, "agents.list[0].tools.exec.safeBins")}},
		{"lists of all levels", one.Tools.Deny, []policy.Setting[[]Tool]{{Value: []Tool{"process"}, Source: source(4, "tools.deny")}, {Value: []Tool{}, Source: source(17, "agents.list[0].tools.deny")}}},
		{"rules of all levels", one.Tools.Exec.Policy().List, []policy.Rule{
			{Action: policy.Deny, Pattern: "rm -rf", Reason: "no", Source: source(7, "tools.exec.rules[0]")},
			{Action: policy.Query, Pattern: "git push", Source: source(14, "agents.defaults.tools.exec.rules[0]")},
			{Action: policy.Allow, Pattern: "/bin/ls", Source: source(18, "agents.list[0].tools.exec.rules[0]")},
			{Action: policy.Allow, Pattern: "/usr/bin/git status", ArgPattern: "^status", Source: source(18, "agents.list[0].tools.exec.rules[1]")},
			{Action: policy.Allow, Pattern: "/a", Runs: []string{}, Writes: []string{policy.RunsAny}, Source: source(19, "agents.list[0].tools.exec.rules[2]")},
			{Action: policy.Allow, Pattern: "/b", Runs: []string{"/c"}, Writes: []string{}, Source: source(19, "agents.list[0].tools.exec.rules[3]")},
			{Action: policy.Allow, Pattern: "/c", Args: []string{"-x", ""}, Source: source(19, "agents.list[0].tools.exec.rules[4]")},
			{Action: policy.Deny, Pattern: "rm", Args: []string{}, Source: source(19, "agents.list[0].tools.exec.rules[5]")},
		}},
		{"profiles of all levels", one.Tools.Exec.Policy().SafeBinProfiles, map[string]policy.SafeBin{"jq": {MaxPositional: 2}, "yq": {}}},
	} {
		if d := cmp.Diff(tc.want, tc.got); d != "" {
			t.Errorf("%s: %s", tc.what, d)
		}
	}
}

func TestGet(t *testing.T) {
	c := mustParse(t, levels)
	for _, tc := range []struct{ key, value, source string }{
		{"agents.list[0].tools.exec.security", `"deny"`, "corral.json5:17 agents.list[0].tools.exec.security"},
		{"agents.list[1].tools.exec.security", `"full"`, "corral.json5:6 tools.exec.security"},
		{"agents.list[1].tools.exec.rules", `[{"ask":"git push"}]`, "corral.json5:14 agents.defaults.tools.exec.rules"},
		{"agents.defaults.tools.exec.timeout", `1.5`, "corral.json5:6 tools.exec.timeout"},
		{"agents.defaults.tools.exec.yieldMs", `10000`, "default"},
		{"tools.exec.ask", `"on-miss"`, "default"},
		{"tools.exec.node", `null`, "default"},
		{"agents.list[9].sandbox.mode", `"all"`, "corral.json5:2 sandbox.mode"},
		{"agents.list[1].id", `"two"`, "corral.json5:20 agents.list[1].id"},
		{"agents.list[9].id", `null`, "default"},
		{"tools.deny", `["process"]`, "corral.json5:4 tools.deny"},
		{"tools.deny[0]", `"process"`, "corral.json5:4 tools.deny[0]"},
		{"tools.exec.safeBinProfiles.jq.maxPositional", `1`, "corral.json5:8 tools.exec.safeBinProfiles.jq.maxPositional"},
		{"approvals", `null`, "default"},
	} {
		v, err := c.Get(tc.key)
		if err != nil || string(v.Value) != tc.value || v.Source.String() != tc.source || v.Key != tc.key {
			t.Errorf("%s: %s from %v, %v", tc.key, v.Value, v.Source, err)
		}
	}
	// openclaw config get agents.list
	if v, err := c.Get("agents.list"); err != nil || !strings.HasPrefix(string(v.Value), `[{"id":"one","tools":{"deny":[],`) {
		t.Errorf("%s, %v", v.Value, err)
	}
	if v, err := c.Get(""); err != nil || !strings.HasPrefix(string(v.Value), `{"sandbox":{"mode":"all","memory":"1g"},`) {
		t.Errorf("%s, %v", v.Value, err)
	}
	for key, says := range map[string]string{
		"tools.exec.secrity":        "tools.exec.secrity: there is no such key; did you mean tools.exec.security?",
		"agents.list[0].tools.exce": "agents.list[0].tools.exce: there is no such key; did you mean agents.list[0].tools.exec?",
		"tools.exec.ask.x":          "tools.exec.ask.x: there is nothing in it by that name: it takes off, on-miss, always",
		"tools[0]":                  "tools[0]: there is nothing in it by that name",
		"tools..exec":               `"tools..exec" is no path`,
	} {
		if _, err := c.Get(key); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// While a file cannot be used nothing may run, and everybody is told why.
func TestClosed(t *testing.T) {
	_, bad := Parse("/etc/corral.json5", []byte(`{ tools: { exec: { security: "ful" } } }`))
	c := Closed("/etc/corral.json5", bad)
	a := c.Agent("main")
	e := a.Tools.Exec
	if e.Security.Value != policy.SecurityDeny || e.AskFallback.Value != policy.SecurityDeny || a.Sandbox.Mode.Value != ModeAll || !a.Sandbox.Required.Value {
		t.Errorf("%+v", a)
	}
	if !errors.Is(a.Err, bad) || c.Err == nil {
		t.Error(a.Err)
	}
	if want := `closed: /etc/corral.json5:1:30: tools.exec.security: there is no "ful"; use deny, allowlist, full`; e.Security.Source.String() != want {
		t.Error(e.Security.Source)
	}
	for _, tool := range toolNames[:4] {
		if err := a.Tools.Check(tool); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), `there is no "ful"`) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if err := a.Tools.Elevated.Check(Sender{ID: "1"}); err == nil {
		t.Error("elevated is allowed")
	}
	if got := a.With(Overrides{Security: policy.SecurityFull}).Tools.Exec.Security.Value; got != policy.SecurityDeny {
		t.Error(got)
	}
}

func TestToolPolicy(t *testing.T) {
	const exec, process, patch, shell = ToolExec, ToolProcess, ToolApplyPatch, ToolRunShellCommand
	for _, tc := range []struct {
		text    string
		allowed []Tool
	}{
		{`{}`, []Tool{exec, process, patch, shell}},
		// `allow: ["exec"]` を指定すると、暗黙的に `apply_patch` も許可されます。
		{`{tools: {allow: ["exec"]}}`, []Tool{exec, patch}},
		{`{tools: {allow: ["exec", "process"], deny: ["apply_patch"]}}`, []Tool{exec, process}},
		{`{tools: {allow: ["group:runtime"]}}`, []Tool{exec, process, patch, shell}},
		{`{tools: {allow: []}}`, nil},
		// `exec` をハードに無効化したい場合は、ツールポリシー（`tools.deny: ["exec"]` またはエージェント単位）で拒否してください。
		{`{tools: {deny: ["exec"]}}`, []Tool{process}},
		{`{tools: {allow: ["exec"], deny: ["exec"]}}`, nil},
		{`{tools: {deny: ["exec"]}, agents: {list: [{id: "a", tools: {allow: ["exec"], deny: []}}]}}`, nil},
		{`{agents: {list: [{id: "a", tools: {deny: ["exec"]}}]}}`, []Tool{process}},
		{`{tools: {allow: ["process"]}, agents: {list: [{id: "a", tools: {allow: ["*"]}}]}}`, []Tool{process}},
		{`{tools: {deny: ["*"]}}`, nil}, {`{tools: {deny: ["group:runtime"]}}`, nil}, {`{tools: {allow: ["run_shell_command"]}}`, []Tool{shell}},
	} {
		tools := mustParse(t, tc.text).Agent("a").Tools
		var got []Tool
		for _, tool := range toolNames[:4] {
			if err := tools.Check(tool); err == nil {
				got = append(got, tool)
			} else if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "corral.json5:1 ") || corral.Hint(err) == "" {
				t.Errorf("%s: %v", tc.text, err)
			}
		}
		if d := cmp.Diff(tc.allowed, got); d != "" {
			t.Errorf("%s: %s", tc.text, d)
		}
	}
}
