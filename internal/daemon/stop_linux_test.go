package daemon

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/policy/approval"
)

// A gateway stops while calls wait for a person's answer, and they are told that the
// approval is pending.
func TestStopsWhileApprovalsWait(t *testing.T) {
	for name, tt := range map[string]struct {
		tool  string
		mcp   bool
		asked bool // the user of the client
	}{
		"HTTP":                                   {tool: "run_shell_command"},
		"MCP":                                    {tool: "run_shell_command", mcp: true},
		"MCP, the user is asked":                 {tool: "run_shell_command", mcp: true, asked: true},
		"MCP, the user is asked about a command": {tool: "exec", mcp: true, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := serveWith(t, `{
				sandbox: { mode: "off" },
				agents: { defaults: { workspace: "WORK", tools: { runShellCommand: { enabled: true, coreTools: ["run_shell_command(echo)"] }, exec: { host: "gateway", security: "allowlist", ask: "on-miss" } } } },
			}`)
			args := map[string]any{"command": "mkdir " + filepath.Join(g.work, "x")}
			if tt.tool == "run_shell_command" {
				args["is_background"] = false
			}
			said := make(chan string, 1)
			if tt.mcp {
				client := g.mcpClient(t, tt.asked)
				go func() {
					r, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: tt.tool, Arguments: args})
					if err != nil {
						said <- err.Error()
					} else {
						said <- fmt.Sprint(r.StructuredContent)
					}
				}()
			} else {
				go func() {
					_, text, _ := g.call("main", "", tt.tool, args)
					said <- text
				}()
			}
			for len(g.s.hosts.policies.desk.List(approval.Filter{State: approval.Pending})) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // it waits
			begin := time.Now()
			if err := g.stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := <-said; !strings.Contains(got, "pending") {
				t.Errorf("the call was told: %s", got)
			}
		})
	}
}

// A gateway stops while a call over MCP waits for a sandbox that does not come up.
func TestStopsWhileSandboxStarts(t *testing.T) {
	g := serveWith(t, `{ sandbox: { mode: "off" }, agents: { list: [{ id: "main", sandbox: { mode: "all" } }] } }`)
	box := slowBox{&fakeexec.Executor{}, make(chan struct{})}
	g.s.hosts.opt.Backends.Sandbox = func(SandboxOptions) (Executor, error) { return box, nil }
	client := g.mcpClient(t, false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = client.CallTool(context.Background(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "true"}}) // which it does not survive
	}()
	<-box.starting
	begin := time.Now()
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	<-ended
}

// A slowBox comes up when the start is given up.
type slowBox struct {
	*fakeexec.Executor
	starting chan struct{}
}

func (b slowBox) Start(ctx context.Context, _ corral.Command) (corral.Process, error) {
	close(b.starting)
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "", "the sandbox does not come up")
}

func (slowBox) Close() error { return nil }

// mcpClient is a client over MCP. Its user, if they are asked, gives no answer.
func (g *serving) mcpClient(t *testing.T, asked bool) *sdk.ClientSession {
	t.Helper()
	var o sdk.ClientOptions
	if asked {
		o.ElicitationHandler = func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			select {
			case <-ctx.Done():
			case <-t.Context().Done():
			}
			return nil, ctx.Err()
		}
	}
	web := unixTransport(t, filepath.Join(g.s.dir, api.SocketFile), http.Header{})
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, &o).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: &http.Client{Transport: web}, MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the gateway is gone
	return c
}
