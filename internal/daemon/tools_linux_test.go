package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/tool"
)

// A serving is a gateway of this process, with real commands.
type serving struct {
	t    *testing.T
	s    *Gateway
	work string
	file string       // the configuration
	stop func() error // has it stop, and returns what Serve did
}

// serveWith starts a gateway with a configuration, in which WORK stands for the
// workspace. That is prepared before.
func serveWith(t *testing.T, settings string, prepare ...func(work string)) *serving {
	t.Helper()
	t.Setenv("CORRAL_WARDEN", wardenbintest.Build(t))
	dir := testdir.New(t)
	g := &serving{t: t, work: filepath.Join(dir, "work"), file: filepath.Join(dir, "corral.json5")}
	if err := os.Mkdir(g.work, 0o755); err != nil {
		t.Fatal(err)
	}
	g.configure(settings)
	for _, do := range prepare {
		do(g.work)
	}
	log := &logtest.Log{}
	timeout := time.Minute
	opt := GatewayOptions{
		Options: Options{
			Config: ConfigFile{Path: g.file, Named: true}, Settings: Settings{Mode: ModeOff}, Backends: RealBackends(), Version: "v1",
			Environ: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}, Log: slog.New(slog.NewTextHandler(log, nil)),
		},
		StateDir: filepath.Join(dir, "state"), Timeout: &timeout,
	}
	var err error
	if g.s, err = OpenGateway(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.s.Serve(ctx) }()
	g.stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log)
		}
	})
	return g
}

func (g *serving) configure(settings string) {
	g.t.Helper()
	if err := os.WriteFile(g.file, []byte(strings.ReplaceAll(settings, "WORK", g.work)), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *serving) client(agent string) *client.Client {
	g.t.Helper()
	c, err := client.New(client.Options{Socket: filepath.Join(g.s.dir, api.SocketFile), Agent: agent})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return c
}

// call calls a tool over HTTP, and returns what of the result is of interest.
func (g *serving) call(agent, model, name string, args any) (result map[string]any, text string, failed bool) {
	g.t.Helper()
	data, err := json.Marshal(args)
	if err != nil {
		g.t.Fatal(err)
	}
	called, err := g.client(agent).CallTool(g.t.Context(), name, model, data)
	if err != nil {
		g.t.Fatalf("%s of %s: %v", name, agent, err)
	}
	if err := json.Unmarshal(called.Result, &result); err != nil {
		g.t.Fatal(err)
	}
	return result, called.Text, called.Failed
}

const toolSettings = `{
	sandbox: { mode: "off" },
	agents: {
		defaults: { workspace: "WORK" },
		list: [
			{ id: "main", tools: { runShellCommand: { enabled: true, coreTools: ["run_shell_command(echo)", "run_shell_command(cat)", "run_shell_command(touch)"], excludeTools: ["run_shell_command(touch bad)"] },
				exec: { applyPatch: { enabled: true } } } },
			{ id: "asimi", tools: { runShellCommand: { enabled: true, profile: "asimi" }, exec: { applyPatch: { enabled: true, allowModels: ["gpt-5.2"] } } } },
			{ id: "only", tools: { allow: ["exec"], runShellCommand: { enabled: true }, exec: { applyPatch: { enabled: true } } } },
			{ id: "none", tools: { deny: ["exec"], runShellCommand: { enabled: true }, exec: { applyPatch: { enabled: true } } } },
			{ id: "plain" },
			{ id: "strict", tools: { runShellCommand: { enabled: true }, exec: { host: "gateway", security: "deny", applyPatch: { enabled: true } } } },
			{ id: "policed", tools: { runShellCommand: { enabled: true }, exec: { host: "gateway" } } },
			{ id: "both", tools: { runShellCommand: { enabled: true, coreTools: ["run_shell_command(echo)"] }, exec: { host: "gateway" } } },
			{ id: "cron", unattended: true, tools: { runShellCommand: { enabled: true, coreTools: ["run_shell_command(echo)"] } } },
		],
	},
}`

// Which tools there are depends on the configuration and the model, over HTTP
// and over MCP alike.
func TestToolsListed(t *testing.T) {
	g := serveWith(t, toolSettings)
	for _, tc := range []struct{ agent, model, want string }{
		{"main", "", "exec process run_shell_command"},
		{"main", "openai/gpt-5.2", "exec process run_shell_command apply_patch"},
		{"main", "claude-opus", "exec process run_shell_command"},
		{"asimi", "gpt-5.2", "exec process run_shell_command apply_patch"},
		{"asimi", "gpt-4.1", "exec process run_shell_command"},
		{"only", "gpt-5.2", "exec apply_patch"},
		{"none", "gpt-5.2", "process"},
		{"plain", "gpt-5.2", "exec process"},
	} {
		list, err := g.client(tc.agent).Tools(t.Context(), tc.model)
		if err != nil {
			t.Fatal(err)
		}
		var names, background []string
		for _, d := range list {
			names = append(names, d.Name)
			if strings.Contains(string(d.InputSchema), "is_background") {
				background = append(background, d.Name)
			}
			if d.Title == "" || len(d.OutputSchema) == 0 {
				t.Errorf("%s has no title or schema: %+v", d.Name, d)
			}
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%s with %q: %s, want %s", tc.agent, tc.model, got, tc.want)
		}
		if has := slices.Contains(background, "run_shell_command"); has != (tc.agent == "main") {
			t.Errorf("%s: is_background is in %q", tc.agent, background)
		}
	}
}

// A stop of the gateway ends no command of run_shell_command, as it ends no other: the call
// is answered, and the command goes on.
func TestRunShellCommandGoesOn(t *testing.T) {
	g := serveWith(t, toolSettings)
	if err := syscall.Mkfifo(filepath.Join(g.work, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		_, text, _ := g.call("main", "", "run_shell_command", map[string]any{"command": "touch begun; cat fifo", "is_background": false})
		done <- text
	}()
	for _, err := os.Stat(filepath.Join(g.work, "begun")); err != nil; _, err = os.Stat(filepath.Join(g.work, "begun")) {
		time.Sleep(10 * time.Millisecond)
	}
	list := g.s.Agent("main").List(t.Context())
	g.s.sessions.Drain()
	select {
	case text := <-done:
		if len(list) != 1 || !strings.Contains(text, "goes on as session "+list[0].ID) {
			t.Errorf("%+v: %s", list, text)
		}
	case <-time.After(5 * time.Second):
		t.Error("the call is not answered")
	}
	for _, st := range list {
		found, err := g.s.Agent("main").Session(st.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, ended := found.Ended(); ended {
			t.Error("the command was ended")
		}
		if err := found.Discard(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestRunShellCommand(t *testing.T) {
	g := serveWith(t, toolSettings)
	if err := os.WriteFile(filepath.Join(g.work, "here"), []byte("in the workspace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, text, failed := g.call("main", "", "run_shell_command", map[string]any{"command": "cat here; echo $QWEN_CODE", "is_background": false})
	if failed || r["stdout"] != "in the workspace\n1\n" || r["exitCode"] != 0.0 || !strings.Contains(text, "Directory: (root)\nStdout: in the workspace\n1") {
		t.Errorf("%v, %q", r, text)
	}
	// What is excluded, or denied by the tools of the agent, never runs.
	for _, tc := range []struct{ agent, command, want string }{
		{"main", "echo a && touch bad", "is blocked by configuration"},
		{"only", "echo a", "the tool run_shell_command is not in"},
		{"none", "echo a", "the tool run_shell_command is denied by"},
		{"strict", "echo a", "exec denied: security=deny"},
		{"cron", "touch x", "not in the allowed commands list"},
		{"asimi", "echo $(touch bad)", "Command substitution"},
	} {
		args := map[string]any{"command": tc.command}
		if tc.agent != "asimi" {
			args["is_background"] = false
		}
		r, text, failed := g.call(tc.agent, "", "run_shell_command", args)
		if !failed || !strings.Contains(fmt.Sprint(r["error"]), tc.want) || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %s: %v", tc.agent, tc.command, r)
		}
	}
	for _, file := range []string{"bad", "x"} {
		if _, err := os.Stat(filepath.Join(g.work, file)); err == nil {
			t.Errorf("%s was made", file)
		}
	}
	r, _, failed = g.call("asimi", "", "run_shell_command", map[string]any{"command": "echo $ASIMI_CLI"})
	if failed || r["stdout"] != "1\n" {
		t.Errorf("%v", r)
	}
	if _, err := g.client("plain").CallTool(t.Context(), "run_shell_command", "", json.RawMessage(`{"command":"true","is_background":false}`)); !errors.Is(err, corral.ErrNotFound) || corral.Hint(err) == "" {
		t.Errorf("one that is not turned on: %v", err)
	}
	if r, _, _ := g.call("main", "", "exec", map[string]any{"command": "cat here"}); r["stdout"] != "in the workspace\n" {
		t.Errorf("exec runs elsewhere: %v", r)
	}
	// What is in the background is a session of the agent.
	r, _, failed = g.call("main", "", "run_shell_command", map[string]any{"command": "cat", "is_background": true, "description": "Wait\nfor input"})
	list, err := g.client("main").Sessions(t.Context(), false)
	if err != nil || failed || len(list) != 1 || list[0].ID != r["sessionId"] || list[0].Description != "[background] Wait for input" {
		t.Errorf("%v, %+v, %v", r, list, err)
	}
}

// What coreTools do not have somebody is asked about, at the desk.
func TestRunShellCommandAsks(t *testing.T) {
	g := serveWith(t, toolSettings)
	desk := g.s.hosts.policies.desk
	answer := func(after int64, v approval.Verdict) {
		changed, _, err := desk.Changes(t.Context(), after)
		if err != nil || len(changed) == 0 {
			t.Error(err)
			return
		}
		rec := changed[0]
		if slices.Contains(rec.AllowedDecisions, approval.AllowAlways) {
			t.Errorf("it can be allowed for good, which would be a rule of the policy: %+v", rec)
		}
		if _, err := desk.Answer(t.Context(), rec.ID, approval.Answer{Decision: v, By: "test"}); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		verdict approval.Verdict
		made    bool
	}{{approval.Deny, false}, {approval.AllowOnce, true}} {
		var before int64
		for _, rec := range desk.List(approval.Filter{}) {
			before = max(before, rec.Seq)
		}
		var owned sync.WaitGroup
		owned.Go(func() { answer(before, tc.verdict) })
		r, _, failed := g.call("main", "", "run_shell_command", map[string]any{"command": "mkdir made", "is_background": false})
		owned.Wait()
		_, err := os.Stat(filepath.Join(g.work, "made"))
		if failed == tc.made || (err == nil) != tc.made {
			t.Errorf("%s: %v, %v", tc.verdict, r, err)
		}
	}
	// Who calls can be asked, by the restrictions and by the policy; both count.
	for agent, questions := range map[string]int{"main": 1, "policed": 1, "both": 2} {
		asked := 0
		ctx := tool.WithApprover(t.Context(), func(_ context.Context, rec approval.Record) (approval.Answer, error) {
			asked++
			about := strings.Join(rec.About(), "\n")
			if !strings.Contains(about, "For:       [background] Make it (says its caller)\n") || strings.Contains(about, "  mkdir first-"+agent+" [background]") {
				t.Errorf("%s is asked: %s", agent, about)
			}
			return approval.Answer{Decision: approval.AllowOnce}, nil
		})
		for _, dir := range []string{"first-" + agent, "second-" + agent} { // of which none is remembered
			r, err := agentTools{s: g.s, agent: agent}.Call(ctx, "run_shell_command", json.RawMessage(`{"command":"mkdir `+dir+`; cat","is_background":true,"description":"Make it"}`))
			if err != nil || r.Failed() {
				t.Errorf("%s: %+v, %v", agent, r, err)
			}
			_, err = os.Stat(filepath.Join(g.work, dir))
			for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) { // it is in the background
				_, err = os.Stat(filepath.Join(g.work, dir))
			}
			if err != nil {
				t.Errorf("%s: %v", agent, err)
			}
		}
		if asked != 2*questions {
			t.Errorf("%s: %d questions, want %d for each of two calls", agent, asked, questions)
		}
	}
	refuse := tool.WithApprover(t.Context(), func(context.Context, approval.Record) (approval.Answer, error) {
		return approval.Answer{Decision: approval.Deny}, nil
	})
	for _, agent := range []string{"main", "policed"} {
		if r, err := (agentTools{s: g.s, agent: agent}).Call(refuse, "run_shell_command", json.RawMessage(`{"command":"mkdir refused","is_background":false}`)); err != nil || !r.Failed() {
			t.Errorf("%s: %+v, %v", agent, r, err)
		}
	}
	if _, err := os.Stat(filepath.Join(g.work, "refused")); err == nil {
		t.Error("what was denied ran")
	}
	// Nobody answers for a while: the call says what to do, and the next takes
	// the answer that came meanwhile.
	g.s.approvalWait = 20 * time.Millisecond
	again := map[string]any{"command": "mkdir later", "is_background": false}
	r, _, failed := g.call("main", "", "run_shell_command", again)
	if !failed || !strings.Contains(fmt.Sprint(r["error"]), "is pending") || !strings.Contains(fmt.Sprint(r["error"]), "corral approvals allow ") {
		t.Fatalf("%v", r)
	}
	pending := desk.List(approval.Filter{State: approval.Pending})
	if len(pending) != 1 || pending[0].Command != "mkdir later" {
		t.Fatalf("%+v", pending)
	}
	if _, err := desk.Answer(t.Context(), pending[0].ID, approval.Answer{Decision: approval.AllowOnce}); err != nil {
		t.Fatal(err)
	}
	if r, _, failed := g.call("main", "", "run_shell_command", again); failed {
		t.Errorf("%v", r)
	}
	if r, _, failed := g.call("main", "", "run_shell_command", again); !failed {
		t.Errorf("one approval let it run twice: %v", r)
	}
	if rules, err := g.s.hosts.policies.file.Rules("main"); err != nil || len(rules.Rules) > 0 {
		t.Errorf("it became a rule of the policy: %+v, %v", rules, err)
	}
}

func TestApplyPatch(t *testing.T) {
	g := serveWith(t, toolSettings)
	input := map[string]any{"input": "*** Begin Patch\n*** Add File: new.txt\n+made\n*** End Patch"}
	for _, tc := range []struct{ agent, model, want string }{
		{"main", "", "models of OpenAI"},
		{"main", "claude-opus", "models of OpenAI"},
		{"asimi", "gpt-4.1", "allowModels does not list it"},
		{"none", "gpt-5.2", "the tool apply_patch is denied by"},
		{"strict", "gpt-5.2", "security=deny"},
	} {
		r, text, failed := g.call(tc.agent, tc.model, "apply_patch", input)
		if !failed || r["status"] != "denied" || !strings.Contains(text, tc.want) || !strings.Contains(text, "No file was changed.") {
			t.Errorf("%s, %s: %v", tc.agent, tc.model, r)
		}
	}
	if _, err := os.Stat(filepath.Join(g.work, "new.txt")); err == nil {
		t.Fatal("it was made all the same")
	}
	if r, _, failed := g.call("only", "openai/gpt-5.2", "apply_patch", input); failed || r["status"] != "completed" {
		t.Errorf("allow: [\"exec\"] does not mean it: %v", r)
	}
	if data, err := os.ReadFile(filepath.Join(g.work, "new.txt")); string(data) != "made\n" {
		t.Errorf("%q, %v", data, err)
	}
	r, _, failed := g.call("only", "gpt-5.2", "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Add File: ../out.txt\n+x\n*** End Patch"})
	if !failed {
		t.Errorf("it left the workspace: %v", r)
	}
}

// A configuration that changes counts for the next call, also of a client that
// was connected before.
func TestToolsFollowConfiguration(t *testing.T) {
	g := serveWith(t, toolSettings)
	header := http.Header{api.HeaderAgent: {"main"}, api.HeaderModel: {"gpt-5.2"}}
	web := &http.Client{Transport: unixTransport(t, filepath.Join(g.s.dir, api.SocketFile), header)}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: web}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	listed, err := c.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 4 {
		t.Fatalf("%+v, %v", listed, err)
	}
	patch := func(name string) (*sdk.CallToolResult, error) {
		return c.CallTool(t.Context(), &sdk.CallToolParams{Name: "apply_patch", Arguments: map[string]any{"input": "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"}})
	}
	if r, err := patch("one"); err != nil || r.IsError {
		t.Errorf("the header has no model: %+v, %v", r, err)
	}
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_shell_command", Arguments: map[string]any{"command": "cat one", "is_background": false}})
	if err != nil || r.IsError || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, "Stdout: x") {
		t.Errorf("%+v, %v", r, err)
	}
	g.configure(`{ agents: { list: [{ id: "main", workspace: "WORK", tools: { deny: ["exec"], exec: { applyPatch: { enabled: true } } } }] } }`)
	if r, err := patch("two"); err != nil || !r.IsError {
		t.Errorf("what is denied now was called: %+v, %v", r, err)
	}
	g.configure(`{ nonsense: 1 }`)
	if r, err := patch("three"); err == nil && !r.IsError {
		t.Errorf("it may with a configuration that cannot be used: %+v", r)
	}
	for _, name := range []string{"two", "three"} {
		if _, err := os.Stat(filepath.Join(g.work, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}

func unixTransport(t *testing.T, socket string, header http.Header) http.RoundTripper {
	tr := &http.Transport{DialContext: dialer(socket)}
	t.Cleanup(tr.CloseIdleConnections)
	return withHeader{tr, header}
}

// Who sent it decides who may leave the sandbox.
func TestElevatedSenders(t *testing.T) {
	g := serveWith(t, `{ agents: { list: [{ id: "main", sandbox: { mode: "all" }, tools: { elevated: { enabled: true, allowFrom: { telegram: ["7"] } }, exec: { security: "full", ask: "off" } } }] } }`)
	for sender, want := range map[string]string{"telegram:7": "completed", "telegram:8": "denied", "discord:7": "denied", "": "denied"} {
		header := http.Header{}
		if sender != "" {
			header.Set(api.HeaderSender, sender)
		}
		web := &http.Client{Transport: unixTransport(t, filepath.Join(g.s.dir, api.SocketFile), header)}
		resp, err := web.Post("http://localhost/v1/exec", api.TypeJSON, strings.NewReader(`{"command":"echo out","elevated":true}`))
		if err != nil {
			t.Fatal(err)
		}
		var r map[string]any
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&r), resp.Body.Close())
		if err != nil || r["status"] != want {
			t.Errorf("%q: %v, %v", sender, r, err)
		}
		if want == "denied" && (!strings.Contains(fmt.Sprint(r["error"]), "failing gates: allowFrom") || !strings.Contains(fmt.Sprint(r["error"]), "corral.json5:1")) {
			t.Errorf("%q: it does not say which gate, and where: %v", sender, r)
		}
	}
	// Over MCP it is the sender of each call, not of the connection.
	header := http.Header{api.HeaderSender: {"telegram:8"}}
	web := &http.Client{Transport: unixTransport(t, filepath.Join(g.s.dir, api.SocketFile), header)}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: web, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tc := range []struct {
		sender string
		denied bool
	}{{"telegram:8", true}, {"telegram:7", false}, {"telegram:8", true}} {
		header[api.HeaderSender] = []string{tc.sender}
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "true", "elevated": true}})
		if err != nil || r.IsError != tc.denied {
			t.Errorf("MCP, %s: %+v, %v", tc.sender, r, err)
		}
	}
	// Also under protocol versions that have a session, whose context is that
	// of its first request.
	delete(header, api.HeaderSender)
	session := ""
	post := func(sender, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {api.TypeJSON}, "Accept": {api.TypeJSON + ", " + api.TypeEvents}, api.HeaderSender: {sender}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("MCP-Protocol-Version", "2025-06-18")
		}
		resp, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		session = cmp.Or(session, resp.Header.Get("Mcp-Session-Id"))
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	post("telegram:8", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	post("telegram:8", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if session == "" {
		t.Fatal("there is no session of the protocol")
	}
	for i, sender := range []string{"telegram:8", "telegram:7"} {
		got := post(sender, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true","elevated":true}}}`, i+2))
		if denied := strings.Contains(got, `"status":"denied"`); denied != (i == 0) || !strings.Contains(got, `"status"`) {
			t.Errorf("MCP 2025-06-18, %s: %s", sender, got)
		}
	}
	// What was let through and asked about runs without its sender.
	ctx := letThrough(t.Context())
	if _, err := g.s.hosts.of("main").Route(ctx, corral.Command{Shell: "true", Elevated: true}); err != nil {
		t.Error(err)
	}
}

// What people say to an agent.
func TestSay(t *testing.T) {
	g := serveWith(t, `{ commands: { allowFrom: { telegram: ["7"] } }, agents: { list: [{ id: "main", tools: { exec: { host: "gateway", ask: "always" } } }] } }`)
	c := g.client("main")
	me := config.Sender{Provider: "telegram", ID: "7"}
	for _, tc := range []struct {
		text string
		from config.Sender
		want string // of the answer, or of the error
	}{
		{"/exec", me, "Exec defaults are as configured: host=gateway security=allowlist ask=always node=(none)."},
		{"/exec host=node node=mac-1", me, "Exec defaults set (host=node node=mac-1). They are now: host=node security=allowlist ask=always node=mac-1."},
		{"/exec", config.Sender{}, "(set by /exec: host=node node=mac-1)"},
		{"/exec host=gateway", config.Sender{Provider: "telegram", ID: "8"}, "/exec is for authorised senders"},
		{"/exec ask=sometimes", me, "Unrecognized exec ask"},
		{"/exec@other ask=off", me, "the command is for other"},
		{"/exec host= node=", me, "Exec defaults are as configured again"},
		{"/help", me, `"/help" is no command`},
		{" ", me, "is no command"},
		{"/approve nonsense allow-once", me, "nonsense"},
	} {
		text, err := c.Say(t.Context(), tc.text, tc.from)
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s: %s, want %s", tc.text, text, tc.want)
		}
	}
	if b, err := os.ReadFile(g.file); err != nil || strings.Contains(string(b), "node") {
		t.Errorf("the configuration was written: %s, %v", b, err)
	}
	// An approval that is answered in a chat.
	result, _, _ := g.call("main", "", "exec", map[string]any{"command": "true"})
	id := fmt.Sprint(result["approvalSlug"])
	if result["status"] != "approval-pending" || id == "" {
		t.Fatalf("%v", result)
	}
	text, err := c.Say(t.Context(), "/approve "+id+" deny", me)
	if err != nil || !strings.Contains(text, id) {
		t.Errorf("%q, %v", text, err)
	}
	rec, err := g.s.hosts.policies.desk.Get("main", id)
	if err != nil || rec.State != approval.Denied || rec.AnsweredBy != "telegram:7" {
		t.Errorf("%+v, %v", rec, err)
	}
}

// withHeader sends headers with every request.
type withHeader struct {
	next   http.RoundTripper
	header http.Header
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range w.header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	return w.next.RoundTrip(r)
}

func dialer(socket string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
}
