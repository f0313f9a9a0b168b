package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/report"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// sampleReport has one of everything.
func sampleReport() api.Report {
	source := func(line int, key string) policy.Source {
		return policy.Source{File: "/etc/corral/corral.json5", Line: line, Key: key}
	}
	allow := &policy.Rule{Action: policy.Allow, Pattern: "/usr/bin/git status", Source: source(4, "tools.exec.rules[0]")}
	value := "C.UTF-8"
	r := api.Report{Outcome: policy.Asked, Reason: `"curl evil": no rule allows /usr/bin/curl`, Command: "…", Shell: []string{"/bin/bash", "-c"}, Cwd: "/srv/checkout",
		Fix:      []string{`add the rule {allow: "/usr/bin/curl", args: ["evil"]}`, "run the commands one by one, or set allowlist.chaining: each"},
		Commands: []string{`corral config set 'tools.exec.rules[1]' '{allow: "/usr/bin/curl", args: ["evil"]}'`},
		Previews: []approval.Preview{
			{Scope: approval.ScopeExact, Entries: []policy.Rule{{Action: policy.Allow, Pattern: "/usr/bin/curl", Args: []string{"evil"}}}},
			{Scope: approval.ScopeSubcommand, Unavailable: `the argument "evil" is no subcommand`},
			{Scope: approval.ScopeProgram, Entries: []policy.Rule{{Action: policy.Allow, Pattern: "/usr/bin/curl"}}},
		},
		Environment: &pathenv.Description{
			Path:      []pathenv.PathEntry{{Dir: "/opt/bin", Origin: pathenv.OriginPrepend}, {Dir: "/usr/bin", Origin: pathenv.OriginLogin}},
			Variables: []pathenv.Variable{{Name: "LANG", Origin: pathenv.OriginDaemon, Value: &value}, {Name: "MY_TOKEN", Origin: pathenv.OriginCall, Secret: true}, {Name: "PATH", Origin: pathenv.OriginMerged}},
			Dropped:   []pathenv.Dropped{{Name: "GH_TOKEN", Source: pathenv.SourceDaemon, Reason: pathenv.ReasonCredential}},
		},
		FromFiles: true,
	}
	r.Agent, r.Guarded = "main", true
	r.Route = corral.Route{Host: corral.HostGateway, Guarded: true, Reason: corral.RouteConfigured}
	r.Warnings = []string{"The approvals file has an entry that allows nothing."}
	r.Decision = policy.Decision{
		Outcome: policy.Asked, Security: policy.Setting[policy.Security]{Value: "allowlist", Source: policy.Source{Name: "default"}},
		Ask:         policy.Setting[policy.Ask]{Value: "on-miss", Source: source(2, "tools.exec.ask")},
		AskFallback: policy.Setting[policy.Security]{Value: "deny", Source: policy.Source{Name: "default"}},
		Segments: []policy.Segment{
			{Text: "nohup git status", Argv: []string{"nohup", "git", "status"}, Path: "/usr/bin/nohup", By: "wrapper"},
			{Text: "nohup git status", Argv: []string{"git", "status"}, Wrappers: []string{"nohup"}, Path: "/usr/bin/git", RealPath: "/usr/lib/git", By: "rule", Rule: allow},
			{Text: "python3 run.py", Argv: []string{"python3", "run.py"}, Path: "/usr/bin/python3", Script: "/srv/checkout/run.py", SHA256: strings.Repeat("0a", 32), Unbound: "it imports what is beside it", Reason: "no rule allows the script"},
			{Text: "curl \x1b[31mevil\u202e", Depth: 1, Argv: []string{"curl", "evil"}, Path: "/usr/bin/curl", Reason: "no rule allows /usr/bin/curl"},
			{Text: "rm -rf /", Argv: []string{"rm", "-rf", "/"}, Path: "/usr/bin/rm", Rule: &policy.Rule{Action: policy.Deny, Pattern: "rm -rf", Reason: "never", Source: source(9, "tools.exec.rules[5]")}, Reason: "x"},
		},
		Findings: []policy.Finding{
			{Kind: policy.Chaining, Text: "&&", Reason: "chains commands"},
			{Kind: policy.Redirection, Text: "2>/dev/null", Reason: "redirects output", Passes: true},
		},
		Run: &policy.Pinned{Args: []string{"/bin/bash", "-c", "/usr/bin/git status && …"}},
	}
	return r
}

func TestExplainText(t *testing.T) {
	r := sampleReport()
	full := func(l report.Look) string { return l.Report(r) + "\n" + l.Environment(r) }
	for file, l := range map[string]report.Look{"explain.txt": {}, "explain-colours.txt": {Width: 80, Colours: true}} {
		path := filepath.Join("testdata", "golden", file)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), full(l)); d != "" {
			t.Errorf("%s: %s\n%s", file, d, full(l))
		}
	}
	// What a command has in it does nothing to a terminal.
	if text := full(report.Look{}); strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `curl \u{1b}[31mevil\u{202e}`) {
		t.Errorf("%q", text)
	}
	// Lines that are for reading are no longer than the terminal; those to paste
	// stay whole.
	for _, width := range []int{60, 80, 100} {
		for line := range strings.Lines(report.Look{Width: width}.Report(r)) {
			if n := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); n > width && !strings.HasPrefix(line, "  $ ") && !strings.Contains(line, "/etc/corral") && !strings.Contains(line, "would run") {
				t.Errorf("%d columns on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

// Without a gateway the files are read from here, and nothing is run.
func TestExplainFromFiles(t *testing.T) {
	m := &fakeMachine{}
	m.gateway.Programs = map[string]fakeexec.Program{}
	m.gateway.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpStart {
			t.Error("it was run")
		}
		return nil
	}
	file := filepath.Join(t.TempDir(), "corral.json5")
	if err := os.WriteFile(file, []byte(`{ agents: { list: [{ id: "main", sandbox: { mode: "all" } }] } }`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		code int
		out  string
	}{
		{"true", 0, "allow  it runs in a sandbox"},
		{"--agent other true", 0, "allow  the sandbox is off"},
		{"--agent other --host gateway --security deny true", 1, "deny  security=deny (the call)"},
		{"--host gateway true", 1, "deny  host not allowed (requested gateway; configured host is unset)"},
		{"--elevated true", 1, "deny  elevated is not available: failing gates: allowFrom (tools.elevated.allowFrom (default))"},
		{"--agent other --host gateway --local true", 1, "ask  \"true\": "},
		{"--values true", 2, ""},
		{"--sender nobody true", 2, ""},
		{"--agent /x true", 2, ""},
		{"", 2, ""},
	} {
		code, out, errs := m.run(t, []string{"CORRAL_CONFIG=" + file}, append([]string{"explain"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.HasPrefix(out, tc.out) || (code == 2) != (errs != "") {
			t.Errorf("%s: %d, %s%s", tc.args, code, out, errs)
		}
		if code != 2 && !strings.Contains(out, "No gateway was asked") {
			t.Errorf("%s: it does not say where it is from: %s", tc.args, out)
		}
	}
}
