package remote_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/daemon"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/remote"
)

// serve runs a gateway; the returned function ends it.
func serve(t *testing.T, config string) (*client.Client, func()) {
	t.Helper()
	dir := testdir.New(t)
	file := filepath.Join(dir, "corral.json5")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	g, err := daemon.Open(t.Context(), daemon.Options{Config: file, StateDir: state, Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx) }()
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	at, err := client.Discover(state)
	if err != nil {
		t.Fatal(err)
	}
	at.Retry = -1
	c, err := client.New(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, end
}

func TestTools(t *testing.T) {
	c, end := serve(t, `{ tools: { exec: { host: "gateway", rules: [{ allow: "/usr/bin/printf" }], ask: "off" } } }`)
	tools, err := remote.New(t.Context(), c, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tools.Definitions(), func(d tool.Definition) bool { return d.Name == tool.ExecName && d.Input != nil }) {
		t.Errorf("%+v", tools.Definitions())
	}
	call := func(name, args string) tool.Result {
		t.Helper()
		r, err := tools.Call(t.Context(), name, json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	exec := func(args string) tool.ExecResult {
		t.Helper()
		r, ok := call(tool.ExecName, args).(tool.ExecResult)
		if !ok {
			t.Fatalf("%T", r)
		}
		return r
	}

	// The result has everything, so the session is forgotten; one with a chosen ID is kept.
	if r := exec(`{"command":"/usr/bin/printf hello"}`); r.Status != tool.StatusCompleted || r.Ended == nil || r.Stdout != "hello" || *r.ExitCode != 0 || r.SessionID != "" || r.Warnings == nil {
		t.Errorf("%+v", r)
	}
	if r := exec(`{"command":"/usr/bin/printf x","sessionId":"mine"}`); r.Status != tool.StatusCompleted || r.SessionID != "mine" {
		t.Errorf("%+v", r)
	}
	list, ok := call(tool.ProcessName, `{"action":"list"}`).(tool.ProcessResult)
	if !ok || len(list.Sessions) != 1 || list.Sessions[0].SessionID != "mine" {
		t.Errorf("%+v", list.SessionList)
	}

	for _, tc := range []struct {
		name, args, say string
		status          tool.Status
	}{
		{"denied", `{"command":"/usr/bin/id"}`, "", tool.StatusDenied},
		{"no command", `{}`, "command", tool.StatusFailed},
		{"no JSON", `{`, "", tool.StatusFailed},
	} {
		r := exec(tc.args)
		if r.Status != tc.status || !strings.Contains(r.Error, tc.say) || r.Error == "" || (r.Denial != nil) != (tc.status == tool.StatusDenied) {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
	if r := call(tool.ProcessName, `{"action":"poll","sessionId":"none"}`); !r.Failed() {
		t.Errorf("%s", r.Text())
	}
	if _, err := tools.Call(t.Context(), "no-such-tool", nil); err == nil {
		t.Error("a tool that there is not can be called")
	}

	// If the gateway is away, that is a result, and it does not claim that the command ran.
	end()
	r, err := tools.Call(t.Context(), tool.ExecName, json.RawMessage(`{"command":"/usr/bin/printf y"}`))
	if err != nil || !r.Failed() {
		t.Errorf("%v, %v", r, err)
	}
}
