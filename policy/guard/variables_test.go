package guard

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// The decision and the remembered rules cover the variables of a call.
func TestVariables(t *testing.T) {
	r := newRig(t, `tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss", env: {allow: ["FREE", "ONE=1"]}, pathPrepend: ["~/bin", "/opt/bin"],
		rules: [{allow: "**/tool", env: ["MINE"]}, {allow: "**/wc"}]}}`)
	with := func(pairs ...string) corral.Command {
		cmd := corral.Command{ID: corral.NewID(), Shell: "tool a", Env: map[string]string{}}
		for _, p := range pairs {
			name, value, _ := strings.Cut(p, "=")
			cmd.Env[name] = value
		}
		return cmd
	}
	for _, cmd := range []corral.Command{with(), with("LANG=C.UTF-8", "TZ=UTC", "CI=1"), with("FREE=x"), with("ONE=1"), with("MINE=x", "FREE=y")} {
		if _, err := r.check(cmd); err != nil {
			t.Errorf("%v: %v", cmd.Env, err)
		}
	}
	for _, cmd := range []corral.Command{with("ZIP=-T"), with("LANG=C", "TEXTDOMAINDIR=/x"), with("ONE=2"), with("TZ=/x"), with("PATH=/x")} {
		rec := r.pending(cmd)
		if about := strings.Join(rec.About(), "\n"); !strings.Contains(about, "it may make") && !strings.Contains(about, "its value is none") || !strings.Contains(about, "(sha256 ") {
			t.Errorf("%v: the prompt does not show it:\n%s", cmd.Env, about)
		}
		if strings.Contains(rec.Decision.Reason, "/x") {
			t.Errorf("%v: its value is shown: %s", cmd.Env, rec.Decision.Reason)
		}
	}
	piped := with("MINE=x")
	piped.Shell = "tool a | wc"
	r.pending(piped) // no rule on wc names the variable

	// Directories before PATH count as a variable, unless they are configured.
	prepended := func(dirs ...string) corral.Command { return corral.Command{Shell: "tool a", PathPrepend: dirs} }
	if _, err := r.check(prepended("/opt/bin")); err != nil {
		t.Error(err)
	}
	if rec := r.pending(prepended("/opt/bin", r.at("bin"))); !strings.Contains(rec.Decision.Reason, "PATH") {
		t.Error(rec.Decision.Reason)
	}

	// Security full checks no variables.
	r.write("config.json5", `{tools: {exec: {host: "gateway", security: "full", ask: "off"}}}`)
	r.again()
	if _, err := r.check(with("ZIP=-T")); err != nil {
		t.Error(err)
	}
}

// A command that is always allowed with a variable is allowed with that value only.
func TestVariablesAlways(t *testing.T) {
	r := newRig(t, onHost)
	r.ok(r.file.Add("main", approval.ScopeProgram, policy.Rule{Action: policy.Allow, Pattern: r.at("bin", "tool")}))
	one := corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"ZIP": "hush-hush"}}
	rec := r.pending(one)
	if entries := rec.Previews[0].Lines(); len(entries) != 1 || !strings.Contains(entries[0], "also with ZIP as it is now (sha256 ") {
		t.Errorf("%q", entries)
	}
	one.Approval = r.answer(rec, approval.AllowAlways).ID
	if _, err := r.check(one); err != nil {
		t.Fatal(err)
	}
	r.again()
	if _, err := r.check(corral.Command{ID: "two", Shell: "tool a", Env: map[string]string{"ZIP": "hush-hush"}}); err != nil {
		t.Error(err)
	}
	r.pending(corral.Command{ID: "three", Shell: "tool a", Env: map[string]string{"ZIP": "another"}})
	r.pending(corral.Command{ID: "four", Shell: "tool b", Env: map[string]string{"ZIP": "hush-hush"}})
	if r.holds("hush-hush") {
		t.Error("the value was written")
	}

	// The same for a command that can only be remembered by its text.
	text := corral.Command{ID: "five", Shell: "tool a >out", Env: map[string]string{"ZIP": "hush-hush"}}
	text.Approval = r.answer(r.pending(text), approval.AllowAlways).ID
	if _, err := r.check(text); err != nil {
		t.Fatal(err)
	}
	if _, err := r.check(corral.Command{ID: "six", Shell: "tool a >out", Env: map[string]string{"ZIP": "hush-hush"}}); err != nil {
		t.Error(err)
	}
	for _, cmd := range []corral.Command{{ID: "seven", Shell: "tool a >out", Env: map[string]string{"ZIP": "another"}}, {ID: "eight", Shell: "tool a >out", Env: map[string]string{"ZIP": "hush-hush", "X": "1"}}} {
		r.pending(cmd)
	}
}

// A PATH that is always allowed is not allowed with other directories before it.
func TestPathBehindDirectories(t *testing.T) {
	r := newRig(t, onHost)
	r.ok(r.file.Add("main", approval.ScopeProgram, policy.Rule{Action: policy.Allow, Pattern: r.at("bin", "tool")}))
	cmd := corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"PATH": r.at("bin") + ":/usr/bin:/bin"}}
	cmd.Approval = r.answer(r.pending(cmd), approval.AllowAlways).ID
	if _, err := r.check(cmd); err != nil {
		t.Fatal(err)
	}
	r.again()
	cmd.ID, cmd.Approval = "two", ""
	if _, err := r.check(cmd); err != nil {
		t.Error(err)
	}
	cmd.ID, cmd.PathPrepend = "three", []string{r.at("first")}
	r.pending(cmd)
}

// A node checks the variables itself, whatever its gateway allows.
func TestVariablesOnNode(t *testing.T) {
	p := newPair(t, nodeSettings, `tools: {exec: {security: "full", ask: "off", env: {allow: ["ZIP"]}}}`)
	p.ok(p.file.Add("main", approval.ScopeProgram, policy.Rule{Action: policy.Allow, Pattern: p.at("bin", "tool")}))
	if _, err := p.gw.guard.For("main")(t.Context(), corral.Command{Shell: "tool a", Env: map[string]string{"LANG": "C"}}, toNode); err != nil {
		t.Error(err)
	}
	cmd := corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"ZIP": "-T"}}
	rec := p.pendingAtGateway(cmd)
	if v := rec.Decision.Variables; len(v) != 1 || v[0].Name != "ZIP" || v[0].By != "" || !strings.Contains(rec.Decision.Reason, "ZIP") {
		t.Errorf("%+v: %s", v, rec.Decision.Reason)
	}
	if _, err := p.node.StartFor(t.Context(), "main", cmd); !errors.Is(err, corral.ErrDenied) { // past the gateway
		t.Errorf("the node starts it: %v", err)
	}
}
