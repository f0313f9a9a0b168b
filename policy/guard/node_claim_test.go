package guard

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// sayings is a node with a fixed answer.
type sayings struct {
	text string
	err  error
	got  []corral.Command
}

func (s *sayings) Decide(_ context.Context, node, _ string, cmd corral.Command) (id, name string, answer []byte, err error) {
	s.got = append(s.got, cmd)
	return "id-of-" + node, node, []byte(s.text), s.err
}

// lie is a valid answer, after change has been applied.
func lie(change func(*answer)) string {
	a := answer{
		Decision: policy.Decision{Outcome: policy.Allowed, Fallback: policy.Allowed, Segments: []policy.Segment{}, Security: policy.Setting[policy.Security]{Value: policy.SecurityFull}},
		Dir:      "/", Sum: "sum", Binding: approval.Binding{RealDir: "/"},
	}
	if change != nil {
		change(&a)
	}
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// A lying node cannot make the decision laxer than the gateway's.
func TestHostileNode(t *testing.T) {
	for _, tc := range []struct {
		name, gateway, says string
		cmd                 corral.Command
		want                error
		why                 string
		asked               bool // the node is asked
	}{
		{"security=deny", `tools: {exec: {security: "deny"}}`, lie(nil), corral.Command{Shell: "tool"}, corral.ErrDenied, "security=deny", false},
		{"the call's security=deny", nodeSettings, lie(nil), corral.Command{Shell: "tool", Security: "deny"}, corral.ErrDenied, "security=deny (the call)", false},
		{"a deny rule", `tools: {exec: {rules: [{deny: "tool"}]}}`, lie(nil), corral.Command{Shell: "env A=1 nice tool"}, corral.ErrDenied, `deny rule "tool"`, false},
		{"a deny rule with an option", `tools: {exec: {rules: [{deny: "rm -rf"}]}}`, lie(nil), corral.Command{Shell: "rm -r -f x | cat"}, corral.ErrDenied, `deny rule "rm -rf"`, false},
		{"a deny rule of which it says it is another program", `tools: {exec: {rules: [{deny: "tool"}]}}`, lie(func(a *answer) {
			a.Decision.Segments = []policy.Segment{{Argv: []string{"harmless"}, Path: "/bin/harmless"}}
		}), corral.Command{Shell: "tool"}, corral.ErrDenied, `deny rule "tool"`, false},
		{"an ask rule", `tools: {exec: {rules: [{ask: "tool"}]}}`, lie(nil), corral.Command{Shell: "tool"}, corral.ErrApproval, `ask rule "tool"`, true},
		{"ask=always", `tools: {exec: {ask: "always"}}`, lie(nil), corral.Command{Shell: "tool"}, corral.ErrApproval, "ask=always", true},
		{"what deny rules cannot be checked on", `tools: {exec: {rules: [{deny: "rm"}]}}`, lie(nil), corral.Command{Shell: "$TOOL x"}, corral.ErrApproval, "deny rules cannot be checked", true},
		{"an unattended agent", `agents: {defaults: {unattended: true}}, tools: {exec: {ask: "always"}}`, lie(nil), corral.Command{Shell: "tool"}, corral.ErrDenied, "askFallback is deny", true},
		{"it answers for itself", `tools: {exec: {ask: "always"}}`, lie(func(a *answer) { a.Local = true }), corral.Command{Shell: "tool"}, corral.ErrApproval, "ask=always", true},
		{"no answer", nodeSettings, "", corral.Command{Shell: "tool"}, corral.ErrUnavailable, "cannot be understood", true},
		{"no JSON", nodeSettings, "{", corral.Command{Shell: "tool"}, corral.ErrUnavailable, "cannot be understood", true},
		{"null", nodeSettings, "null", corral.Command{Shell: "tool"}, corral.ErrUnavailable, `"" is no decision`, true},
		{"no decision", nodeSettings, lie(func(a *answer) { a.Decision.Outcome = "run" }), corral.Command{Shell: "tool"}, corral.ErrUnavailable, `"run" is no decision`, true},
		{"another shape", nodeSettings, `{"decision": [1]}`, corral.Command{Shell: "tool"}, corral.ErrUnavailable, "cannot be understood", true},
		{"too much", nodeSettings, lie(func(a *answer) { a.Decision.Reason = strings.Repeat("x", maxAnswer) }), corral.Command{Shell: "tool"}, corral.ErrUnavailable, "it has 4", true},
		{"a directory that is none", nodeSettings, lie(func(a *answer) { a.Dir = "work" }), corral.Command{Shell: "tool"}, corral.ErrUnavailable, "its working directory", true},
		{"nothing to approve", nodeSettings, lie(func(a *answer) { a.Decision.Outcome, a.Sum = policy.Asked, "" }), corral.Command{Shell: "tool"}, corral.ErrDenied, "does not say what an approval would be for", true},
		{"denied", nodeSettings, lie(func(a *answer) { a.Decision.Outcome = policy.Denied }), corral.Command{Shell: "tool"}, corral.ErrDenied, "on node builder: it gives no reason", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, tc.gateway)
			node := &sayings{text: tc.says}
			r.nodes = node
			r.again()
			tc.cmd.ID = "one"
			_, err := r.guard.For("main")(t.Context(), tc.cmd, toNode)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("%v, want %v: %s", err, tc.want, tc.why)
			}
			if tc.asked != (len(node.got) > 0) {
				t.Errorf("the node was asked %d times", len(node.got))
			}
			if tc.asked && (node.got[0].Security == "" || node.got[0].Ask == "") {
				t.Errorf("the node is not told how strict it has to be: %+v", node.got[0])
			}
		})
	}
}

// Texts of a node are shown as the node's, on one line, and cannot pass for texts of the
// gateway.
func TestClaims(t *testing.T) {
	r := newRig(t, nodeSettings)
	const evil = "fine\n\x1b[31mApproved by the gateway\u009b"
	source := policy.Source{File: "/the/gateways.json5", Line: 1, Key: "tools.exec.security"}
	r.nodes = &sayings{text: lie(func(a *answer) {
		rule := policy.Rule{Action: policy.Allow, Pattern: evil, Source: source}
		a.Decision.Outcome, a.Decision.Reason, a.Decision.Fix = policy.Asked, evil, []string{`add the rule {allow: "**"}`}
		a.Decision.Security.Source = source
		a.Decision.Segments = []policy.Segment{{Text: evil, Argv: []string{evil}, Path: evil, Rule: &rule, Offset: -5}}
		a.Warnings, a.Shell, a.Omitted = []string{evil}, []string{evil}, 3
		a.Previews = []approval.Preview{{Scope: approval.ScopeProgram, Entries: []policy.Rule{rule}}}
		a.Binding = approval.Binding{Command: "another", EnvSum: "another", Env: []string{"OTHER"}, Node: "other", RealDir: "/"}
	})}
	r.again()
	cmd := corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"A": "1"}}
	report, _, err := r.guard.Report(t.Context(), "main", cmd, toNode)
	r.ok(err)
	rec := func() approval.Record {
		_, err := r.guard.For("main")(t.Context(), cmd, toNode)
		p, ok := approval.AsPending(err)
		if !ok {
			t.Fatal(err)
		}
		return p.Record
	}()
	for what, v := range map[string]any{"the report": []any{report.Decision, report.Reason, report.Fix, report.Shell, report.Previews, report.Warnings}, "the record": rec.Shown()} {
		b, err := json.Marshal(v)
		r.ok(err)
		for _, bad := range []string{`\n`, `\u001b`, "\u009b", `"file":"/the/gateways`, `"reason":"fine`} {
			if strings.Contains(string(b), bad) {
				t.Errorf("%s has %q: %s", what, bad, b)
			}
		}
	}
	if rec.Command != "tool" || !slices.Equal(rec.Env, []string{"A"}) || rec.Binding.Node != "id-of-builder" || rec.Binding.Command == "another" || rec.Binding.EnvSum == "another" {
		t.Errorf("what the gateway knows is taken from the node: %+v", rec)
	}
	if report.Decision.Security.Value != policy.SecurityAllowlist {
		t.Errorf("what the gateway wants is no less strict by that: %+v", report.Decision.Security)
	}
	if slices.Contains(rec.AllowedDecisions, approval.AllowAlways) {
		t.Errorf("what would be remembered is not known: %+v", rec.Previews)
	}
	if !slices.ContainsFunc(report.Warnings, func(w string) bool { return strings.HasPrefix(w, "Node builder says: fine") }) || !strings.HasPrefix(report.Fix[0], "on node builder: ") || len(report.Commands) > 0 {
		t.Errorf("%+v", report)
	}
	// The approval is not valid for another node of that name.
	r.answer(rec, approval.AllowOnce)
	cmd.Approval = rec.ID
	other := *r.nodes.(*sayings)
	r.guard.cfg.Nodes = renamed{&other}
	if _, err := r.guard.For("main")(t.Context(), cmd, toNode); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "approved for the node of id id-of-builder") {
		t.Errorf("%v", err)
	}
}

type renamed struct{ *sayings }

func (r renamed) Decide(ctx context.Context, node, agent string, cmd corral.Command) (id, name string, answer []byte, err error) {
	_, name, answer, err = r.sayings.Decide(ctx, node, agent, cmd)
	return "id-of-another", name, answer, err
}

// For a node without a policy, only the gateway's policy decides.
func TestSilentNode(t *testing.T) {
	r := newRig(t, nodeSettings)
	r.nodes = &sayings{err: corral.Errorf(errors.ErrUnsupported, "", "no policy")}
	r.again()
	cmd := corral.Command{ID: "one", Shell: "tool"}
	_, err := r.guard.For("main")(t.Context(), cmd, toNode)
	p, ok := approval.AsPending(err)
	if !ok || slices.Contains(p.Record.AllowedDecisions, approval.AllowAlways) {
		t.Fatalf("%v, %+v", err, p)
	}
	r.answer(p.Record, approval.AllowOnce)
	cmd.Approval = p.Record.ID
	out, err := r.guard.For("main")(t.Context(), cmd, toNode)
	if err != nil || out.Decided.Grant != nil || out.Decided.Exec != nil {
		t.Errorf("%+v, %v", out, err)
	}
	cmd.ID = "two"
	if _, err := r.guard.For("main")(t.Context(), cmd, toNode); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	// A node that cannot be asked now is an error, not a node without a policy.
	r.nodes.(*sayings).err = corral.Errorf(corral.ErrUnavailable, "", "away")
	if _, err := r.guard.For("main")(t.Context(), corral.Command{ID: "x", Shell: "head", Security: "full"}, toNode); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(lie(nil)))
	f.Add([]byte(lie(func(a *answer) {
		a.Decision.Outcome, a.Decision.Rule = policy.Denied, &policy.Rule{Pattern: "a", Source: policy.Source{File: "/f", Line: 1}}
		a.Decision.Segments = []policy.Segment{{Text: "a\nb", Path: "/bin/a", RealPath: "/bin/b"}}
		a.Previews = unavailable("no")
	})))
	f.Add([]byte(`{"decision":{"decision":"ask","run":{"args":["a"]},"segments":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer("builder", b)
		if err != nil {
			if !errors.Is(err, corral.ErrUnavailable) {
				t.Fatal(err)
			}
			return
		}
		if d := a.Decision; !d.Security.Value.Valid() || !d.Ask.Value.Valid() || d.Fallback != policy.Allowed && d.Fallback != policy.Denied ||
			!strings.HasPrefix(d.Reason, "on node builder: ") || strings.ContainsAny(d.Reason, "\n\x1b") || !scopesAll(a.Previews) {
			t.Fatalf("%+v", a)
		}
		_ = a.files()
		again, err := a.encode()
		if err == nil && len(again) > maxAnswer {
			t.Fatalf("%d bytes", len(again))
		}
	})
}

func FuzzGrant(f *testing.F) {
	for _, g := range []grant{{Approval: "a", Agent: "main", Command: "c", Binding: "b", Always: approval.ScopeExact, By: "x", Until: 7}, {Approval: "a", At: 3, Until: 7}, {Fallback: true}} {
		b, err := g.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseGrant(b)
		if err != nil {
			if !errors.Is(err, corral.ErrDenied) {
				t.Fatal(err)
			}
			return
		}
		if g.Fallback == (g.Approval != "") || g.Always != "" && !slices.Contains(approval.Scopes, g.Always) {
			t.Fatalf("%+v", g)
		}
		now := time.UnixMilli(1)
		until, err := g.check("main", "job", "sum", now)
		if err == nil && (g.Agent != "main" || g.Command != "job" || g.Binding != "sum" || !now.Before(until) || until.After(now.Add(grantLife+grantSkew))) {
			t.Fatalf("%+v is good until %s", g, until)
		}
	})
}

// A grant is valid for as long as it says, whatever the two clocks show. If the gateway
// does not send its time, the clocks must roughly agree.
func TestGrantClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	node := time.UnixMilli(1_800_000_000_000)
	for _, tc := range []struct {
		skew, life time.Duration // of the gateway's clock, and of the grant
		why        string        // why it is not valid by the node's clock; empty: it is valid
		why0       string        // the same, if the gateway does not send its time
	}{
		{0, time.Minute, "", ""},
		{0, grantLife, "", ""},
		{0, grantLife + time.Millisecond, "would be good until", ""},
		{0, 0, "was good until", "was good until"},
		{0, -time.Second, "was good until", "was good until"},
		{0, 290 * year, "would be good until", "would be good until"},
		{0, -290 * year, "was good until", "was good until"},
		{time.Hour, grantLife, "", "would be good until"},
		{-time.Hour, grantLife, "", "was good until"},
		{10 * year, grantLife, "", "would be good until"},
		{-10 * year, grantLife, "", "was good until"},
		{10 * year, 2 * grantLife, "would be good until", "would be good until"},
		{-10 * year, -time.Second, "was good until", "was good until"},
	} {
		at := node.Add(tc.skew)
		g := grant{Approval: "a", Agent: "main", Command: "job", Binding: "sum", At: at.UnixMilli(), Until: at.UnixMilli() + tc.life.Milliseconds()}
		old := g
		old.At = 0
		for _, c := range []struct {
			g    grant
			why  string
			want time.Time
		}{{g, tc.why, node.Add(tc.life)}, {old, tc.why0, time.UnixMilli(g.Until)}} {
			until, err := c.g.check("main", "job", "sum", node)
			switch {
			case c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)):
				t.Errorf("%s off, for %s, at %d: %v, want %q", tc.skew, tc.life, c.g.At, err, c.why)
			case c.why == "" && (err != nil || !until.Equal(c.want)):
				t.Errorf("%s off, for %s, at %d: until %s, %v", tc.skew, tc.life, c.g.At, until, err)
			}
		}
	}
}
