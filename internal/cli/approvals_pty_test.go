//go:build linux

package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/tool"
)

// allowlisted is the configuration of a gateway on which nothing runs unless
// somebody allows it.
func allowlisted(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json5")
	if err := os.WriteFile(path, []byte(`{tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return "CORRAL_CONFIG=" + path
}

// asked waits until an approval is pending, and returns it.
func (g *testGateway) asked() approval.Record {
	g.t.Helper()
	for deadline := time.Now().Add(eventuallyWithin); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var list []approval.Record
		if err := json.Unmarshal([]byte(g.corral("approvals", "ls", "--json")), &list); err != nil {
			g.t.Fatal(err)
		}
		if len(list) > 0 {
			return list[0]
		}
	}
	g.t.Fatal("nobody asks")
	return approval.Record{}
}

// On a terminal corral exec asks, and goes on with the same session.
func TestPTYExecAsks(t *testing.T) {
	g := newGateway(t, allowlisted(t))
	c := onConsoleWith(t, g.env, "exec", "-q", "--id", "mine", "printf '<%s>' a; exit 4")
	c.expect(`Approval [a-z-]+[0-9]+ is asked for, by the agent main; expires in `)
	c.expect(`Command:\r\n  printf '<%s>' a; exit 4\r\n`)
	c.expect(`\[d\]eny \[s\]kip: $`)
	c.send("what?\r")
	c.expect(`kip: what\?\r\n.*kip: $`)
	c.send("o\r")
	c.expect("<a>")
	c.wait(4)
	if out := g.corral("ps", "-a", "-q"); out != "mine\n" {
		t.Errorf("sessions: %q", out)
	}

	c = onConsoleWith(t, g.env, "exec", "-q", "printf no")
	c.expect(`kip: $`)
	c.send("d\r")
	c.expect(`corral: exec denied: approval [a-z0-9-]+ was answered deny by "`)
	c.wait(125)

	c = onConsoleWith(t, g.env, "exec", "-q", "--id", "later", "printf '<%s>' later")
	c.expect(`kip: $`)
	c.send("s\r")
	c.expect(`corral: approval [a-z0-9-]+ is pending: `)
	c.wait(125)
	g.corral("approvals", "allow", g.asked().Slug)
	g.corral("wait", "later")

	// Answered elsewhere, the question ends; what is typed then is the command's.
	c = onConsoleWith(t, g.env, "exec", "-q", "-i", `read x; echo "got <$x>"`)
	c.expect(`kip: $`)
	g.corral("approvals", "allow", g.asked().Slug)
	c.expect(`kip: \r\n`)
	c.send("typed\r")
	c.expect("got <typed>")
	c.wait(0)

	// Always: what is remembered is shown before it is.
	c = onConsoleWith(t, g.env, "exec", "-q", "printf always")
	c.expect(`\[o\]nce \[a\]lways \[d\]eny \[s\]kip: $`)
	c.send("a\r")
	c.expect(`1  exact +/\S+/printf, with exactly the arguments: always\r\n`)
	c.expect(`\[b\]ack: $`)
	c.send("b\r")
	c.expect(`ack: b\r\n.*kip: $`)
	c.send("a\r")
	c.expect(`ack: b(.|\n)*\[b\]ack: $`)
	c.send("program\r")
	c.expect(`program\r\nalways`)
	c.wait(0)
	if out := g.corral("exec", "-q", "printf more"); out != "more" {
		t.Errorf("it is asked about again: %q", out)
	}

	// Ctrl-C: nobody waits for it any more, and it does not run later.
	c = onConsoleWith(t, g.env, "exec", "-q", "touch never")
	c.expect(`kip: $`)
	c.send("\x03")
	c.wait(130)
	if out := g.corral("approvals", "ls", "-q"); out != "" {
		t.Errorf("it is pending still: %s", out)
	}
}

func TestPTYWatch(t *testing.T) {
	g := newGateway(t, allowlisted(t))
	_ = g.command("exec", "-q", "--id", "one", "expr one").Run() // it is pending
	c := onConsoleWith(t, g.env, "approvals", "watch")
	c.expect(`Command:\r\n  expr one\r\n(.|\n)*kip: $`)
	c.send("once\r")
	c.expect(`Allowed once: expr one\r\n`)
	g.corral("wait", "one")
	_ = g.command("exec", "-q", "expr two").Run()
	c.expect(`  expr two\r\n(.|\n)*kip: $`)
	// What was meant for one that is settled is no answer to the next, whether
	// it was entered already or not.
	c.send("o")
	g.corral("approvals", "deny", g.asked().Slug, "--by", "bob")
	c.expect(`By somebody else: approval [a-z0-9-]+ was answered deny by "bob"`)
	c.send("nce\ro\ro")
	c.expect(`nce\r\no\r\no$`)
	g.kill()
	g.start()
	_ = g.command("exec", "-q", "expr three").Run()
	c.expect(`  expr three\r\n(.|\n)*kip: $`)
	c.send("\r")
	c.expect(`kip: \r\n.*kip: $`)
	c.send("s\r")
	c.expect(`Left pending\.`)
	c.send("\x03")
	c.wait(130)
}

// Through corral mcp the user of the client is asked, whether a gateway runs or
// corral mcp is one itself.
func TestMCPAsks(t *testing.T) {
	for _, name := range []string{"with a gateway", "alone"} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, allowlisted(t))
			if name == "alone" {
				g.kill()
			}
			questions := make(chan string, 2)
			c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				questions <- r.Params.Message
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "allow-once"}}, nil
			}}).Connect(t.Context(), &sdk.CommandTransport{Command: g.command("mcp", "-q")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"printf '<%s>' a", "printf '<%s>' b"} {
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": command}})
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(r.StructuredContent)
				if err != nil {
					t.Fatal(err)
				}
				var got tool.ExecResult
				if err := json.Unmarshal(raw, &got); err != nil || got.Status != tool.StatusCompleted || got.Output != "<"+command[len(command)-1:]+">" || got.SessionID != "" {
					t.Errorf("%s: %v", raw, err)
				}
				if q := <-questions; !strings.Contains(q, command) {
					t.Error(q)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
