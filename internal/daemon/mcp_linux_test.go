package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/policy/approval"
)

// Who may not answer approvals over HTTP does not answer those of its own calls over MCP,
// in both versions of the protocol, and who may not widen the rules does not there.
func TestMCPApprovesByRight(t *testing.T) {
	g := serveWith(t, `{
		sandbox: { mode: "off" }, gateway: { listen: "127.0.0.1:0" },
		agents: { defaults: { workspace: "WORK", tools: { runShellCommand: { enabled: true, coreTools: ["run_shell_command(mkdir)"] }, exec: { host: "gateway", security: "allowlist", ask: "on-miss" } } } },
	}`)
	g.s.approvalWait = 20 * time.Millisecond
	url := "http://" + g.s.listeners[slices.IndexFunc(g.s.listeners, overTCP)].Addr().String() + "/mcp"
	key := func(role string) string {
		t.Helper()
		made, err := g.client("main").NewKey(t.Context(), api.NewKey{Name: role, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	token, err := os.ReadFile(filepath.Join(g.s.dir, api.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		who, secret  string // empty: the Unix socket
		once, always bool
	}{
		{"agent", key("agent"), false, false}, {"token", strings.TrimSpace(string(token)), true, false},
		{"operator", key("operator"), true, true}, {"owner", "", true, true},
	} {
		for _, version := range []string{"2025-06-18", "2026-07-28"} {
			t.Run(tc.who+" "+version, func(t *testing.T) {
				agent := tc.who + "-" + version
				header := http.Header{api.HeaderAgent: {agent}}
				web := unixTransport(t, filepath.Join(g.s.dir, api.SocketFile), header)
				if tc.secret != "" {
					header.Set("Authorization", "Bearer "+tc.secret)
					web = withHeader{http.DefaultTransport, header}
				}
				var asked []string
				says := approval.AllowAlways
				// The client would not give an answer that it was not offered; one of another make may.
				web = rewriting{web, func(body string) string {
					return strings.ReplaceAll(body, `"decision":"allow-once"`, `"decision":"`+string(says)+`"`)
				}}
				c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, &sdk.ClientOptions{
					ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						asked = append(asked, fmt.Sprint(r.Params.RequestedSchema))
						return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "allow-once"}}, nil
					},
				}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: web}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}()
				try := func(tool, program, name string) bool {
					t.Helper()
					file := filepath.Join(g.work, agent+"-"+name)
					r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"command": program + " " + file, "is_background": false}})
					if err != nil {
						t.Fatal(err)
					}
					_, err = os.Stat(file)
					if said := fmt.Sprint(r.StructuredContent); err != nil && !strings.Contains(said, "pending") {
						t.Errorf("it did not run, and is not pending: %s", said)
					}
					return err == nil
				}
				if got := try("exec", "touch", "always"); got != tc.always {
					t.Errorf("allowed for good, by a client that may not: it ran: %v", got)
				}
				rules, err := g.s.hosts.policies.file.Rules(agent)
				if err != nil || len(rules.Rules) > 0 != tc.always {
					t.Errorf("%+v, %v", rules, err)
				}
				if len(asked) > 0 {
					if strings.Contains(asked[0], "allow-always") != tc.always || !strings.Contains(asked[0], "allow-once") {
						t.Errorf("the user is asked for %s", asked[0])
					}
				}
				says = approval.AllowOnce
				if got := try("exec", "mkdir", "once"); got != tc.once {
					t.Errorf("allowed once: it ran: %v", got)
				}
				if got := try("run_shell_command", "mkdir", "shell"); got != tc.once {
					t.Errorf("run_shell_command, allowed once: it ran: %v", got)
				}
				if len(asked) > 0 != tc.once {
					t.Errorf("asked %d times", len(asked))
				}
			})
		}
	}
}

// rewriting changes the bodies of requests.
type rewriting struct {
	next http.RoundTripper
	to   func(string) string
}

func (w rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	text := w.to(string(body))
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return w.next.RoundTrip(r)
}
