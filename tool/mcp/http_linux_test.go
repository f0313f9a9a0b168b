package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// older is a client of a version of the protocol that has sessions.
type older struct {
	url, version, session string
}

func (o *older) request(ctx context.Context, t *testing.T, method, lastEvent, message string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, o.url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if o.session != "" {
		req.Header.Set("Mcp-Session-Id", o.session)
		req.Header.Set("MCP-Protocol-Version", o.version)
	}
	if lastEvent != "" {
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Last-Event-ID", lastEvent)
	}
	return req
}

func (o *older) send(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode >= 300 {
		body, err := io.ReadAll(res.Body)
		t.Fatalf("%s: %s, %v", res.Status, body, err)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		o.session = id
	}
	return res
}

func (o *older) post(t *testing.T, message string) string {
	t.Helper()
	res := o.send(t, o.request(t.Context(), t, http.MethodPost, "", message))
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// connectOlder does the handshake.
func connectOlder(t *testing.T, url, version string) *older {
	t.Helper()
	o := &older{url: url, version: version}
	o.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, version))
	if o.session == "" {
		t.Fatal("there is no session")
	}
	o.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return o
}

func execMessage(id int, command string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec","arguments":{"command":%q,"yieldMs":120000}}}`, id, command)
}

// A client of an older version of the protocol cancels a call by another request.
func TestOlderClientCancels(t *testing.T) {
	o := connectOlder(t, serveHTTP(t, server(t)), "2025-06-18")
	dir := t.TempDir()
	if got := o.post(t, execMessage(2, "echo hello")); !strings.Contains(got, `"output":"hello\n"`) {
		t.Errorf("%s", got)
	}
	req := o.request(t.Context(), t, http.MethodPost, "", execMessage(3, "touch "+dir+"/begun; sleep 60"))
	answered := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		answered <- err
	}()
	exists(t, dir+"/begun")
	o.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"enough"}}`)
	if err := <-answered; err != nil { // without the kill this would take a minute
		t.Error(err)
	}
}

// A connection that breaks while a call waits does not cancel it: the client
// comes back for the result.
func TestOlderClientResumes(t *testing.T) {
	o := connectOlder(t, serveHTTP(t, server(t)), "2025-11-25")
	dir := t.TempDir()
	ctx, cut := context.WithCancel(t.Context())
	res := o.send(t, o.request(ctx, t, http.MethodPost, "", execMessage(2, "while ! [ -e "+dir+"/go ]; do sleep 0.02; done; echo there")))
	lines := bufio.NewScanner(res.Body)
	event := ""
	for event == "" && lines.Scan() {
		event, _ = strings.CutPrefix(lines.Text(), "id: ")
		if !strings.HasPrefix(lines.Text(), "id: ") {
			event = ""
		}
	}
	if event == "" {
		t.Fatal("there is no event to resume from", lines.Err())
	}
	cut()
	res.Body.Close()

	o.post(t, execMessage(3, "touch "+dir+"/go"))
	res = o.send(t, o.request(t.Context(), t, http.MethodGet, event, ""))
	defer res.Body.Close()
	for lines = bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"output":"there\n"`) {
			return
		}
	}
	t.Errorf("the result did not come: %v", lines.Err())
}

func TestHandlerRefusesOtherOrigins(t *testing.T) {
	h := server(t).Handler()
	for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden, "": http.StatusOK} {
		req := httptest.NewRequest(http.MethodPost, "http://corral.example/mcp", bytes.NewReader([]byte(
			`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "server/discover")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("%q: %d %s", origin, w.Code, w.Body)
		}
	}
}
