package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// If a node cannot look for a process of that ID, it starts none.
func TestNodeCannotSearch(t *testing.T) {
	p := newPair(t, nodeSettings, trusting)
	p.host.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpAttach {
			return corral.Errorf(corral.ErrUnavailable, "", "no answer")
		}
		return nil
	}
	if _, err := p.node.StartFor(t.Context(), "main", corral.Command{ID: "one", Shell: "head"}); !errors.Is(err, corral.ErrUnavailable) || p.host.Starts() != 0 {
		t.Errorf("%v, %d started", err, p.host.Starts())
	}
	p.host.Fault = nil
	if _, err := p.node.StartFor(t.Context(), "main", corral.Command{Shell: "head"}); err != nil || p.host.last.ID == "" || !p.host.last.Decided.Fresh {
		t.Errorf("%+v, %v", p.host.last, err)
	}
}

// for one start.
func TestNotStartedOnce(t *testing.T) {
	for fault, again := range map[error]bool{corral.ErrUnavailable: true, corral.ErrLost: false} {
		p := newPair(t, nodeSettings, nodeSettings)
		p.host.Fault = func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpStart {
				return corral.Errorf(fault, "", "it fails")
			}
			return nil
		}
		cmd := corral.Command{ID: "one", Shell: "tool a"}
		g := p.grantFor("main", cmd)
		if err := p.try("main", cmd, g); !errors.Is(err, fault) {
			t.Fatal(err)
		}
		p.host.Fault = nil
		if err := p.try("main", cmd, g); (err == nil) != again {
			t.Errorf("after %v: %v", fault, err)
		}
		if !again {
			continue
		}
		p.host.Fault = func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpRemove {
				return fault
			}
			return nil
		}
		proc, err := p.node.Attach(t.Context(), "one")
		p.ok(err)
		if err := proc.Remove(t.Context()); !errors.Is(err, fault) {
			t.Errorf("it is not removed: %v", err)
		}
		p.host.Fault = nil
		p.remove("one")
		if err := p.try("main", cmd, g); !errors.Is(err, corral.ErrDenied) || p.host.Starts() != 1 {
			t.Errorf("removed: %v, %d started", err, p.host.Starts())
		}
	}
}

// be remembered there.
func TestNodeScopes(t *testing.T) {
	for scope, others := range map[approval.Scope]bool{approval.ScopeExact: false, approval.ScopeProgram: true} {
		p := newPair(t, nodeSettings, nodeSettings)
		cmd := corral.Command{ID: "one", Shell: "tool a"}
		g := p.grantFor("main", cmd)
		g.Always = scope
		p.ok(p.try("main", cmd, g))
		if _, err := p.node.StartFor(t.Context(), "main", corral.Command{ID: "two", Shell: "tool a"}); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
		if _, err := p.node.StartFor(t.Context(), "main", corral.Command{ID: "three", Shell: "tool b"}); (err == nil) != others {
			t.Errorf("%s, with other arguments: %v", scope, err)
		}
		if rec, err := p.desk.Get("main", g.Approval); err != nil || rec.Verdict != approval.AllowAlways {
			t.Errorf("%+v, %v", rec, err)
		}
	}
	// A grant is good also if the node asks about it no more, and then nothing is remembered.
	p := newPair(t, nodeSettings, nodeSettings)
	for i, g := range []grant{{Always: approval.ScopeProgram}, {Fallback: true}} {
		cmd := corral.Command{ID: fmt.Sprint("c", i), Shell: "head"}
		g.Approval, g.Agent, g.Command = "a"+corral.NewID(), "main", cmd.ID
		g.Binding, g.Until = p.grantFor("main", cmd).Binding, time.Now().Add(time.Minute).UnixMilli()
		if g.Fallback {
			g.Approval = ""
		}
		if err := p.try("main", cmd, g); err != nil {
			t.Errorf("%+v: %v", g, err)
		}
	}
	if host, err := p.file.Rules("main"); err != nil || len(host.Rules) != 0 {
		t.Errorf("it is remembered: %+v, %v", host.Rules, err)
	}
	for settings, why := range map[string]string{
		`tools: {exec: {security: "full", ask: "always"}}`:                                  "an approval is required every time",
		`tools: {exec: {security: "full", ask: "on-miss", rules: [{ask: "tool"}]}}`:         "a rule has this asked about every time",
		`tools: {exec: {security: "allowlist", ask: "on-miss", rules: [{ask: "**/tool"}]}}`: "a rule has this asked about every time",
	} {
		p := newPair(t, settings, trusting)
		cmd := corral.Command{ID: "one", Shell: "tool a"}
		if rec := p.pendingAtGateway(cmd); !strings.Contains(rec.Previews[0].Unavailable, why) || slices.Contains(rec.AllowedDecisions, approval.AllowAlways) {
			t.Errorf("%s: %+v", settings, rec.Previews)
		}
		g := p.grantFor("main", cmd)
		g.Always = approval.ScopeExact
		cmd.Decided.Grant, _ = g.encode()
		proc, err := p.node.StartFor(t.Context(), "main", cmd)
		p.ok(err)
		if w := strings.Join(proc.Info().Warnings, "\n"); !strings.Contains(w, "does not remember") || !strings.Contains(w, why) {
			t.Errorf("%s: %q", settings, w)
		}
		if host, err := p.file.Rules("main"); err != nil || len(host.Rules) != 0 {
			t.Errorf("%s: it is remembered: %+v, %v", settings, host.Rules, err)
		}
	}
}

// What the operators of a node deny holds until the request would have expired.
func TestDeniedFor(t *testing.T) {
	p := newPair(t, `node: {approvals: "local"}, `+nodeSettings, nodeSettings)
	p.expiry = 300 * time.Millisecond
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	for range 2 {
		if _, err := p.start(cmd); !errors.Is(err, corral.ErrApproval) {
			t.Fatalf("the operators are not asked: %v", err)
		}
		for _, rec := range p.desk.List(approval.Filter{State: approval.Pending}) {
			p.answer(rec, approval.Deny)
		}
		time.Sleep(400 * time.Millisecond)
	}
}

// full has the command run without.
func TestNodeSandboxElevatedFull(t *testing.T) {
	for level, want := range map[string]error{"on": corral.ErrDenied, "full": nil} {
		p := newPair(t, `tools: {elevated: {enabled: true, default: "`+level+`"}, exec: {security: "allowlist", ask: "on-miss"}}`, trusting)
		p.boxed()
		if _, err := p.node.StartFor(t.Context(), "main", corral.Command{ID: "one", Shell: "tool a", Elevated: true}); want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// Grants are bounded; the name of a person who answers does not make one too long.
func TestGrantBounds(t *testing.T) {
	g := grant{Approval: "a", By: strings.Repeat("x", maxGrant)}
	b, err := g.encode()
	if parsed, bad := parseGrant(b); err != nil || bad != nil || len(parsed.By) != maxBy {
		t.Errorf("%d bytes, %v, %v", len(b), err, bad)
	}
	full := append(b, slices.Repeat([]byte(" "), maxGrant-len(b))...)
	if _, err := parseGrant(full); err != nil {
		t.Error(err)
	}
	for text, why := range map[string]string{string(full) + " ": "4097 bytes", "{": "cannot be read", `{"approval": "a", "always": "all"}`: "all"} {
		if _, err := parseGrant([]byte(text)); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	if g, err := parseGrant([]byte(`{"approval": "a", "always": "program"}`)); err != nil || g.Always != approval.ScopeProgram {
		t.Errorf("%+v, %v", g, err)
	}
}

// An answer fits into its bounds, whatever is in it, and the decision itself is kept.
func TestAnswerBounds(t *testing.T) {
	many := func(n int) []string { return slices.Repeat([]string{strings.Repeat("w", 1000)}, n) }
	previews := unavailable("no")
	previews[0].Unavailable, previews[0].Entries = "", []policy.Rule{{Pattern: strings.Repeat("p", maxAnswer)}}
	for name, tc := range map[string]struct {
		fill func(*answer)
		kept func(answer) bool
	}{
		"a long binding":     {func(a *answer) { a.Binding.Env = many(17) }, func(a answer) bool { return a.Unbound != "" && a.Sum == "" }},
		"many segments":      {func(a *answer) { a.Decision.Segments = make([]policy.Segment, maxSegments+1) }, func(a answer) bool { return a.Omitted > 0 && a.Omitted+len(a.Decision.Segments) == maxSegments+1 }},
		"long pinned":        {func(a *answer) { a.Decision.Run = &policy.Pinned{Args: many(5)} }, func(a answer) bool { return a.Decision.Run == nil }},
		"pinned":             {func(a *answer) { a.Decision.Run = &policy.Pinned{Args: many(4)} }, func(a answer) bool { return a.Decision.Run != nil }},
		"many warnings":      {func(a *answer) { a.Warnings = many(100) }, func(a answer) bool { return len(a.Warnings) == 16 }},
		"long fixes":         {func(a *answer) { a.Decision.Fix = many(100) }, func(a answer) bool { return a.Decision.Fix == nil }},
		"a long enforcement": {func(a *answer) { a.Decision.Enforce = &policy.Enforcement{Warnings: many(100)} }, func(a answer) bool { return a.Decision.Enforce == nil }},
		"long previews":      {func(a *answer) { a.Previews = previews }, func(a answer) bool { return a.Previews == nil }},
		"all of it": {func(a *answer) {
			a.Decision.Fix, a.Decision.Enforce, a.Previews, a.Warnings = many(100), &policy.Enforcement{Warnings: many(100)}, previews, many(20)
		}, func(a answer) bool { return a.Previews == nil && a.Warnings == nil }},
	} {
		a := answer{Decision: policy.Decision{Outcome: policy.Asked, Reason: "a reason"}, Sum: "sum"}
		tc.fill(&a)
		b, err := a.encode()
		var got answer
		if err != nil || len(b) > maxAnswer || json.Unmarshal(b, &got) != nil || got.Decision.Outcome != policy.Asked || got.Decision.Reason != "a reason" || !tc.kept(got) {
			t.Errorf("%s: %d bytes, %v: %.300s", name, len(b), err, b)
		}
	}
	if b, err := (answer{Decision: policy.Decision{Reason: strings.Repeat("r", maxAnswer)}}).encode(); err == nil {
		t.Errorf("%d bytes", len(b))
	}
}

// A gateway offers to remember on a node only what the node says for every scope.
func TestPreviewsOfNode(t *testing.T) {
	rule := []policy.Rule{{Action: policy.Allow, Pattern: "/bin/tool", Source: policy.Source{Name: "a rule"}}}
	whole := func() []approval.Preview {
		return append(unavailable("no")[:2:2], approval.Preview{Scope: approval.ScopeProgram, Entries: rule})
	}
	for name, change := range map[string]func([]approval.Preview) []approval.Preview{
		"one is missing":  func(l []approval.Preview) []approval.Preview { return l[:2] },
		"another order":   func(l []approval.Preview) []approval.Preview { slices.Reverse(l); return l },
		"yes and no":      func(l []approval.Preview) []approval.Preview { l[2].Unavailable = "no"; return l },
		"neither":         func(l []approval.Preview) []approval.Preview { l[2].Entries = nil; return l },
		"":                func(l []approval.Preview) []approval.Preview { return l },
		"one is too many": func(l []approval.Preview) []approval.Preview { return append(l, l[0]) },
	} {
		a, err := parseAnswer("builder", []byte(lie(func(a *answer) { a.Decision.Outcome, a.Previews = policy.Asked, change(whole()) })))
		some := slices.ContainsFunc(a.Previews, func(p approval.Preview) bool { return len(p.Entries) > 0 })
		if err != nil || some != (name == "") || len(a.Previews) != 3 {
			t.Errorf("%q: %+v, %v", name, a.Previews, err)
		}
		if name == "" && a.Previews[2].Entries[0].Source.Name != "node builder: a rule" {
			t.Errorf("%+v", a.Previews[2].Entries[0].Source)
		}
	}
}

// symbolic links.
func TestPathsOfNode(t *testing.T) {
	for i, tc := range []struct {
		path, real string
		want       error
	}{
		{"/bin/tool", "/opt/evil", corral.ErrDenied},
		{"/bin/tool", "", nil},
		{"/opt/evil", "", corral.ErrDenied},
		{"/bin/tool", "opt/evil", nil},
	} {
		r := newRig(t, `tools: {exec: {security: "full", ask: "off", rules: [{deny: "/opt/evil"}]}}`)
		r.nodes = &sayings{text: lie(func(a *answer) {
			a.Path, a.Decision.Segments = "/bin:/opt", []policy.Segment{{Argv: []string{"tool"}, Path: tc.path, RealPath: tc.real}}
		})}
		r.again()
		cmd := corral.Command{ID: fmt.Sprint("c", i), Shell: "tool a"}
		if tc.path == "/opt/evil" {
			cmd.Shell = "evil a"
		}
		if _, err := r.guard.For("main")(t.Context(), cmd, toNode); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// What the operators of a node allow runs when the gateway sends it again: the node starts
// nothing by itself, so there is no note of the command.
func TestNodeStartsNothingItself(t *testing.T) {
	p := newPair(t, `node: {approvals: "local"}, `+nodeSettings, nodeSettings)
	if _, err := p.start(corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"A": "1"}}); !errors.Is(err, corral.ErrApproval) {
		t.Fatal(err)
	}
	list := p.desk.List(approval.Filter{})
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	if n, ok := list[0].Noted(); ok || len(p.guard.env) != 0 {
		t.Errorf("%+v, %v", n, p.guard.env)
	}
}
