package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

// server returns a server for real commands on this machine.
func server(t *testing.T) *mcp.Server {
	t.Helper()
	state, work := testdir.New(t), testdir.New(t)
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(state, "host"), Workspace: work,
		Environ: []string{"HOME=" + work, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return e, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return mcp.New(mcp.Config{
		Tools: tool.New(tool.Config{Agent: m.Agent("main")}), Version: "1.2.3",
		Instructions: "Be careful.", ProgressEvery: 20 * time.Millisecond,
	})
}

// connect connects a client, which is closed when the test ends.
func connect(t *testing.T, transport sdk.Transport, opt *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, opt).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// transports are all ways to reach a server.
var transports = map[string]func(*testing.T, *mcp.Server) sdk.Transport{
	"streams": func(t *testing.T, s *mcp.Server) sdk.Transport {
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		served := make(chan error)
		go func() { served <- s.Serve(context.WithoutCancel(t.Context()), inRead, outWrite) }()
		t.Cleanup(func() {
			if err := inWrite.Close(); err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		return &sdk.IOTransport{Reader: outRead, Writer: inWrite}
	},
	"http": func(t *testing.T, s *mcp.Server) sdk.Transport {
		return &sdk.StreamableClientTransport{Endpoint: serveHTTP(t, s), HTTPClient: http.DefaultClient}
	},
}

func serveHTTP(t *testing.T, s *mcp.Server) string {
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		srv.CloseClientConnections()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return srv.URL
}

func each(t *testing.T, run func(t *testing.T, to sdk.Transport)) {
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) { run(t, transport(t, server(t))) })
	}
}

// call calls a tool and decodes what it returned.
func call[R any](t *testing.T, c *sdk.ClientSession, name string, args map[string]any) (*sdk.CallToolResult, string, R) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return r, text(t, r), decode[R](t, r)
}

func text(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("%d pieces of content", len(r.Content))
	}
	return r.Content[0].(*sdk.TextContent).Text
}

func decode[R any](t *testing.T, r *sdk.CallToolResult) (result R) {
	t.Helper()
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestTools(t *testing.T) {
	each(t, func(t *testing.T, to sdk.Transport) {
		c := connect(t, to, nil)
		init := c.InitializeResult()
		if init.ServerInfo.Name != "corral" || init.ServerInfo.Version != "1.2.3" || !strings.Contains(init.Instructions, "process") || !strings.HasSuffix(init.Instructions, "\n\nBe careful.") {
			t.Errorf("%+v", init)
		}
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Tools) != 2 || list.Tools[0].Name != "exec" || list.Tools[1].Name != "process" {
			t.Fatalf("%+v", list.Tools)
		}
		for _, tl := range list.Tools {
			if tl.Description == "" || tl.InputSchema == nil || tl.OutputSchema == nil || !*tl.Annotations.DestructiveHint || tl.Annotations.ReadOnlyHint {
				t.Errorf("%+v", tl)
			}
		}
	})
}

func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, to sdk.Transport) {
		c := connect(t, to, nil)
		r, text, e := call[tool.ExecResult](t, c, "exec", map[string]any{"command": "echo hello; exit 3", "timeout": "5"})
		if r.IsError || text != "hello\n\n(Command exited with code 3)" || e.Status != tool.StatusCompleted || *e.ExitCode != 3 || e.Output != "hello\n" {
			t.Errorf("%+v: %q", e, text)
		}
		if r, text, e := call[tool.ExecResult](t, c, "exec", map[string]any{"command": []string{}}); !r.IsError || e.Reason != tool.ReasonInvalid || !strings.HasPrefix(text, "command: ") {
			t.Errorf("%+v: %q", e, text)
		}
		_, _, e = call[tool.ExecResult](t, c, "exec", map[string]any{"command": "cat", "background": true})
		if e.Status != tool.StatusRunning || e.SessionID == "" {
			t.Fatalf("%+v", e)
		}
		call[tool.ProcessResult](t, c, "process", map[string]any{"action": "write", "sessionId": e.SessionID, "data": "bye\n", "eof": true})
		r, _, p := call[tool.ProcessResult](t, c, "process", map[string]any{"action": "wait", "sessionId": e.SessionID})
		if r.IsError || p.Status != tool.StatusCompleted || p.Output != "bye\n" {
			t.Errorf("%+v", p)
		}
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "bash"}); err == nil {
			t.Error("there is a tool that nobody knows")
		}
	})
}

func TestProgress(t *testing.T) {
	each(t, func(t *testing.T, to sdk.Transport) {
		var mu sync.Mutex
		var seen []*sdk.ProgressNotificationParams
		c := connect(t, to, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Params)
		}})
		params := &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo working; sleep 0.4"}}
		params.SetProgressToken("token")
		if _, err := c.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < 2 {
			t.Fatalf("%d notifications", len(seen))
		}
		last := 0.0
		for _, p := range seen {
			if p.ProgressToken != "token" || p.Progress <= last {
				t.Errorf("%+v after %v", p, last)
			}
			last = p.Progress
		}
		if m := seen[len(seen)-1].Message; m != "working" {
			t.Errorf("%q", m)
		}
	})
}

// A cancelled call kills the command in its foreground. A command in the background goes
// on after the client has gone.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, to sdk.Transport) {
		c := connect(t, to, nil)
		_, _, bg := call[tool.ExecResult](t, c, "exec", map[string]any{"command": "sleep 60", "background": true})
		fifo := filepath.Join(t.TempDir(), "fifo")
		call[tool.ExecResult](t, c, "exec", map[string]any{"command": "mkfifo " + fifo})

		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error)
		go func() {
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{
				"command": "trap 'echo killed >" + fifo + "; exit' TERM; echo begun >" + fifo + "; while :; do sleep 0.05; done", "yieldMs": 120000,
			}})
			errs <- err
		}()
		read := map[string]any{"command": "cat " + fifo, "yieldMs": 20000}
		if _, text, _ := call[tool.ExecResult](t, c, "exec", read); text != "begun" {
			t.Fatal(text)
		}
		cancel()
		if err := <-errs; err == nil {
			t.Error("the call was not cancelled")
		}
		if _, text, e := call[tool.ExecResult](t, c, "exec", read); text != "killed" {
			t.Errorf("%q, %+v", text, e)
		}
		_, _, p := call[tool.ProcessResult](t, c, "process", map[string]any{"action": "wait", "sessionId": bg.SessionID, "timeout": 1})
		if p.Status != tool.StatusRunning {
			t.Errorf("%+v", p)
		}
	})
}

// The end of the input ends the server and commands in the foreground.
func TestServeEnds(t *testing.T) {
	s := server(t)
	dir := t.TempDir()
	inRead, inWrite := io.Pipe()
	served := make(chan error)
	go func() { served <- s.Serve(t.Context(), inRead, io.Discard) }()
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"mkfifo ` + dir + `/f; trap 'echo x >` + dir + `/killed; exit' TERM; touch ` + dir + `/begun; while :; do sleep 0.05; done","yieldMs":120000}}}`,
	} {
		if _, err := io.WriteString(inWrite, m+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	exists(t, dir+"/begun")
	if err := inWrite.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	exists(t, dir+"/killed")
}

// A line that is no message is answered, and ends neither the server nor a call.
func TestNoMessage(t *testing.T) {
	s := server(t)
	dir := t.TempDir()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	served := make(chan error)
	go func() { served <- s.Serve(t.Context(), inRead, outWrite) }()
	out := bufio.NewReader(outRead)
	say := func(line string) {
		t.Helper()
		if _, err := io.WriteString(inWrite, line); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want string) {
		t.Helper()
		line, err := out.ReadString('\n')
		if err != nil || !json.Valid([]byte(line)) || !strings.Contains(line, want) {
			t.Fatalf("%q, %v, want %s", line, err, want)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + " \r\n")
	hear(`"id":1`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n\n")
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"command":"touch ` + dir + `/begun; until [ -e ` + dir + `/go ]; do sleep 0.05; done; echo done","yieldMs":120000}}}` + "\n")
	exists(t, dir+"/begun")
	for _, bad := range []struct{ line, code string }{
		{`{"jsonrpc":"2.0","id":3,`, "-32700"}, {"hello", "-32700"}, {"{} {}", "-32700"}, {"\xff", "-32700"},
		{`{}`, "-32600"}, {`7`, "-32600"}, {`null`, "-32600"}, {`[]`, "-32600"}, {`[1]`, "-32600"}, {`{"jsonrpc":"1.0","id":4,"method":"ping"}`, "-32600"},
	} {
		say(bad.line + "\n")
		hear(`{"jsonrpc":"2.0","id":null,"error":{"code":` + bad.code + `,`)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hear(`"id":2`)
	go func() { _, _ = io.WriteString(inWrite, strings.Repeat("x", 9<<20)) }() // too long a line
	if err := <-served; err == nil || !strings.Contains(err.Error(), "a message has more than 8388608 bytes") {
		t.Error(err)
	}
}

func exists(t *testing.T, path string) {
	t.Helper()
	for range 1000 {
		if m, err := filepath.Glob(path); err == nil && len(m) == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("there is no %s", path)
}

// badTools panic.
type badTools struct{ *tool.Tools }

func (badTools) Call(context.Context, string, json.RawMessage) (tool.Result, error) { panic("bad") }

// A panic in a call is the end of that call, and not of the program.
func TestPanic(t *testing.T) {
	log := &logtest.Log{}
	s := mcp.New(mcp.Config{Tools: badTools{tool.New(tool.Config{})}, Log: slog.New(slog.NewTextHandler(log, nil))})
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			c := connect(t, transport(t, s), nil)
			for range 2 {
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "true"}})
				if err == nil || strings.Contains(err.Error(), "bad") {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	if text := log.String(); !strings.Contains(text, "panic=bad") || !strings.Contains(text, "badTools") {
		t.Errorf("the log: %s", text)
	}
}
