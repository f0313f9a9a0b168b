package mcp_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

// guarded returns a server for commands on this machine that all need an approval.
func guarded(t *testing.T) (*mcp.Server, *approval.Desk) {
	t.Helper()
	state, work := testdir.New(t), testdir.New(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(state, "host"), Workspace: work,
		Environ: []string{"HOME=" + work, "PATH=/usr/local/bin:/usr/bin:/bin"},
	})
	ok(err)
	settings, err := config.Parse("config.json5", []byte(`{tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss"}}}`))
	ok(err)
	file, err := approval.NewFile(filepath.Join(state, "exec-approvals.json"), nil)
	ok(err)
	desk, err := approval.OpenDesk(approval.Options{Dir: filepath.Join(state, "desk"), Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
		return file.Add(rec.Agent, rec.Scope, rules...)
	}})
	ok(err)
	g := guard.New(guard.Config{Settings: func() *config.Config { return settings }, File: file, Desk: desk, Plan: e.Plan})
	router := corral.NewRouter(corral.RouterOptions{Host: corral.HostGateway, Gateway: e, Guard: g.For("main")})
	m, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return router, nil },
	})
	ok(err)
	t.Cleanup(func() { ok(errors.Join(m.Close(), desk.Close(), file.Close(), e.Close())) })
	return mcp.New(mcp.Config{Tools: tool.New(tool.Config{Agent: m.Agent("main"), Guard: g})}), desk
}

// versions runs a test with two versions of the protocol: one in which servers send
// questions, and one in which calls return them.
func versions(t *testing.T, run func(t *testing.T, connect func(*mcp.Server, *sdk.ClientOptions) *sdk.ClientSession)) {
	for name, transport := range transports {
		for _, version := range []string{"2025-06-18", "2026-07-28"} {
			t.Run(name+" "+version, func(t *testing.T) {
				run(t, func(s *mcp.Server, o *sdk.ClientOptions) *sdk.ClientSession {
					c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, o).Connect(t.Context(), transport(t, s), &sdk.ClientSessionOptions{ProtocolVersion: version})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := c.Close(); err != nil {
							t.Error(err)
						}
					})
					return c
				})
			})
		}
	}
}

func TestElicitation(t *testing.T) {
	versions(t, func(t *testing.T, connect func(*mcp.Server, *sdk.ClientOptions) *sdk.ClientSession) {
		s, desk := guarded(t)
		var asked []*sdk.ElicitParams
		answers := []*sdk.ElicitResult{
			{Action: "accept", Content: map[string]any{"decision": "allow-once"}},
			{Action: "decline"},
			{Action: "cancel"},
			{Action: "accept", Content: map[string]any{"decision": "deny"}},
			{Action: "accept", Content: map[string]any{"decision": "allow-always", "scope": "program"}},
		}
		c := connect(s, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked = append(asked, r.Params)
			return answers[len(asked)-1], nil
		}})
		exec := func(command string) (string, tool.ExecResult) {
			t.Helper()
			_, text, r := call[tool.ExecResult](t, c, "exec", map[string]any{"command": command})
			return text, r
		}
		if text, r := exec("printf 'a\u202eb' x"); text != "a\u202eb" || r.Status != tool.StatusCompleted {
			t.Fatalf("%q, %+v", text, r)
		}
		for _, want := range []string{`printf 'a\u{202e}b' x`, "Directory: /", "Host:      gateway", "Why:       ", "  exact       exactly this command: ", "  program     nothing: "} {
			if !strings.Contains(asked[0].Message, want) {
				t.Errorf("%s\nlacks %q", asked[0].Message, want)
			}
		}
		schema := asked[0].RequestedSchema.(map[string]any)["properties"].(map[string]any)
		if got := schema["decision"].(map[string]any)["enum"].([]any); len(got) != 3 {
			t.Errorf("%v", schema)
		}
		if text, r := exec("printf 2"); r.Status != tool.StatusDenied || !strings.Contains(text, `was answered deny by "the user of test"`) {
			t.Errorf("%q, %+v", text, r)
		}
		if m := asked[1].Message; !strings.Contains(m, "/printf, with exactly the arguments: 2") || !strings.Contains(m, "/printf, with any arguments") {
			t.Error(m)
		}
		text, r := exec("printf 3")
		if r.Status != tool.StatusApprovalPending || r.Approval == nil || !strings.Contains(text, r.ApprovalSlug) {
			t.Errorf("%q, %+v", text, r)
		}
		if rec, err := desk.Get("main", r.ApprovalID); err != nil || rec.State != approval.Pending {
			t.Errorf("%+v, %v", rec, err)
		}
		if _, r := exec("printf 4"); r.Status != tool.StatusDenied {
			t.Errorf("%+v", r)
		}
		if text, _ := exec("printf 5"); text != "5" {
			t.Errorf("%q", text)
		}
		if text, _ := exec("printf 6"); text != "6" || len(asked) != 5 {
			t.Errorf("%q, asked %d times", text, len(asked))
		}
	})
}

// If the client cannot ask its user, the result names the pending approval.
func TestNoElicitation(t *testing.T) {
	versions(t, func(t *testing.T, connect func(*mcp.Server, *sdk.ClientOptions) *sdk.ClientSession) {
		s, _ := guarded(t)
		c := connect(s, nil)
		res, text, r := call[tool.ExecResult](t, c, "exec", map[string]any{"command": "printf 1"})
		if res.IsError || r.Status != tool.StatusApprovalPending || !strings.Contains(text, "Approval required (id "+r.ApprovalSlug) {
			t.Errorf("%q, %+v", text, r)
		}
	})
}
