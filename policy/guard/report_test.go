package guard

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/policy"
)

// A report predicts what the guard does with the command.
func TestReport(t *testing.T) {
	r := newRig(t, onHost+`, agents: {list: [
		{id: "cron", unattended: true},
		{id: "strict", tools: {exec: {ask: "always", rules: [{allow: "**/tool"}]}}},
		{id: "asked", tools: {exec: {rules: [{ask: "tool"}]}}},
	]}`)
	sandbox := corral.Route{Host: corral.HostSandbox, Sandboxed: true}
	off := corral.Route{Host: corral.HostGateway, Reason: corral.RouteSandboxOff}
	for _, tc := range []struct {
		agent, security string
		route           corral.Route
		outcome         policy.Outcome
		reason          string
		previews        string // which scopes have entries, of "esp"
	}{
		{"main", "", gateway, policy.Asked, "no rule allows", "e-p"},
		{"main", "deny", gateway, policy.Denied, "security=deny (the call)", ""},
		{"main", "deny", sandbox, policy.Allowed, "its own boundary", ""},
		{"main", "deny", off, policy.Allowed, "nothing is asked", ""},
		{"cron", "", gateway, policy.Denied, "nobody can be asked for this agent, and askFallback is deny", ""},
		{"strict", "", gateway, policy.Asked, "ask=always", "---"},
		{"asked", "", gateway, policy.Asked, "ask rule", "---"},
	} {
		cmd := corral.Command{Shell: "tool --now", Security: tc.security}
		got, _, err := r.guard.Report(t.Context(), tc.agent, cmd, tc.route)
		r.ok(err)
		previews := ""
		for i, p := range got.Previews {
			if len(p.Entries) > 0 {
				previews += "esp"[i : i+1]
			} else {
				previews += "-"
			}
			if tc.agent == "strict" && p.Unavailable != "an approval is required every time" {
				t.Errorf("%s", p.Unavailable)
			}
			if (p.Unavailable == "") != (len(p.Entries) > 0) {
				t.Errorf("%s: %+v", tc.agent, p)
			}
		}
		if got.Outcome != tc.outcome || !strings.Contains(got.Reason, tc.reason) || previews != tc.previews || got.Guarded != tc.route.Guarded {
			t.Errorf("%s on %s: %s, %s, %q; want %s, %s, %q", tc.agent, tc.route.Host, got.Outcome, got.Reason, previews, tc.outcome, tc.reason, tc.previews)
		}
		if tc.route.Sandboxed && (got.Cwd != "/workspace" || got.Shell[0] != "/bin/sh" || got.Decision.Segments[0].Path != "") {
			t.Errorf("a program of a sandbox was looked for here: %+v", got)
		}
		if tc.route.Guarded {
			_, err := r.guard.For(tc.agent)(t.Context(), cmd, tc.route)
			was := policy.Allowed
			switch {
			case errors.Is(err, corral.ErrApproval):
				was = policy.Asked
			case errors.Is(err, corral.ErrDenied):
				was = policy.Denied
			}
			if was != tc.outcome {
				t.Errorf("%s: explained as %s, and it was %s: %v", tc.agent, tc.outcome, was, err)
			}
		}
		var back api.Report
		data, err := json.Marshal(got)
		r.ok(err)
		r.ok(json.Unmarshal(data, &back))
		if back.Outcome != got.Outcome || back.Decision.Outcome != got.Decision.Outcome || back.Requested != got.Requested || back.Route.Host != tc.route.Host || back.Agent != tc.agent {
			t.Errorf("JSON: %s", data)
		}
	}
}

// A suggested rule allows the command, or the report says that it does not.
func TestReportFix(t *testing.T) {
	r := newRig(t, onHost)
	const not = "rules alone do not allow it: "
	for command, enough := range map[string]bool{"tool x | tool y": true, "tool $(tool)": false, "tool > x": false, "tool; tool": true, "tool; tool > x": false, "tool >/dev/null && tool": true} {
		got, _, err := r.guard.Report(t.Context(), "main", corral.Command{Shell: command}, gateway)
		r.ok(err)
		if says := strings.HasPrefix(got.Fix[len(got.Fix)-1], not); got.Outcome != policy.Asked || says == enough || len(suggested(got.Fix)) == 0 {
			t.Errorf("%s: %s, %q", command, got.Outcome, got.Fix)
		}
	}
	got, _, err := r.guard.Report(t.Context(), "main", corral.Command{Shell: "tool", Ask: string(policy.AskAlways)}, gateway)
	if last := got.Fix[len(got.Fix)-1]; err != nil || last != not+"set ask to on-miss where it says always: the call" {
		t.Errorf("ask=always: %q, %v", got.Fix, err)
	}
	node := corral.Route{Host: corral.HostNode, Guarded: true}
	got, _, err = r.guard.Report(t.Context(), "main", corral.Command{Shell: "tool"}, node)
	if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "node") {
		t.Errorf("%+v, %v", got.Warnings, err)
	}
}

// A refusal before a decision is a report too, and it never looks like an allowed command.
func TestRefusal(t *testing.T) {
	r, err := Refusal("main", corral.Command{Shell: "x"}, corral.Route{Reason: corral.RouteNotAllowed}, corral.Errorf(corral.ErrDenied, "do this", "not allowed"))
	if err != nil || r.Outcome != policy.Denied || r.Decision.Outcome != policy.Denied || r.Decision.Fallback != policy.Denied || r.Reason != "not allowed" || len(r.Fix) != 1 || r.Command != "x" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Refusal("main", corral.Command{}, corral.Route{}, corral.Errorf(corral.ErrInvalid, "", "no sense")); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
