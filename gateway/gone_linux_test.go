package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral/api"
)

// A client that has sent more than its request and closes the connection is seen to
// be gone, whatever it waits for: net/http does not see it.
func TestGone(t *testing.T) {
	ended := make(chan string, 10)
	until := func(ctx context.Context, what string) {
		<-ctx.Done()
		ended <- what
	}
	g := newRig(t, func(c *Config) {
		c.MaxFollowers = 1
		c.Tools = func(string) Tools {
			return fakeTools{"main", func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
				until(ctx, "tool")
				return nil, context.Cause(ctx)
			}}
		}
		c.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { until(r.Context(), "mcp") })
	})
	g.server.heartbeat = time.Hour
	id := g.start("sleep", "")
	const json = "Content-Type: application/json\r\n"
	for name, tt := range map[string]struct{ request, header, body, more string }{
		"a byte after following":     {request: "GET /v1/sessions/" + id + "/log?follow=true", more: "x"},
		"a body that is not read":    {request: "GET /v1/sessions/" + id + "/log?follow=true", header: "Content-Length: 9\r\n", more: "x"},
		"a request after following":  {request: "GET /v1/sessions/" + id + "/log?follow=true", more: "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		"a byte after events":        {request: "GET /v1/events", more: "x"},
		"a byte after waiting":       {request: "GET /v1/sessions/" + id + "/wait?timeout=10m", more: "x"},
		"a byte after a tool's call": {request: "POST /v1/exec", header: json + "Content-Length: 15\r\n", body: `{"command":"x"}`, more: "x"},
		"a byte after MCP":           {request: "POST /mcp", header: json + "Content-Length: 2\r\n", body: `{}`, more: "x"},
		"a byte after MCP's stream":  {request: "GET /mcp", more: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.dial(tt.request + " HTTP/1.1\r\nHost: localhost\r\n" + tt.header + "\r\n" + tt.body)
			time.Sleep(50 * time.Millisecond) // it is served, and net/http reads ahead
			fmt.Fprint(conn, tt.more)
			time.Sleep(50 * time.Millisecond)
			conn.Close()
			if strings.Contains(tt.request, "exec") || strings.Contains(tt.request, "mcp") {
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Fatal("its context has not ended")
				}
			}
			g.unserved(t)
		})
	}
	t.Run("a byte after approvals", func(t *testing.T) {
		p := newDesk(t)
		p.server.heartbeat = time.Hour
		conn := p.dial("GET /v1/approvals/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(50 * time.Millisecond)
		fmt.Fprint(conn, "x")
		time.Sleep(50 * time.Millisecond)
		conn.Close()
		p.unserved(t)
	})
	t.Run("input that the command does not read", func(t *testing.T) {
		id := g.start("sleep", `,"stdin":true`)
		conn, _, err := websocket.Dial(t.Context(), "ws://localhost/v1/sessions/"+id+"/attach", &websocket.DialOptions{
			HTTPClient: g.unix, Subprotocols: []string{api.AttachProtocol},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for conn.Write(ctx, websocket.MessageBinary, make([]byte, 32<<10)) == nil { //nolint:revive // until the connection takes no more
		}
		conn.CloseNow()
		g.unserved(t)
	})
}

// unserved waits until there is no follower and no request.
func (g *rig) unserved(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); len(g.server.followers) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d followers are still counted", len(g.server.followers))
		}
	}
}

// A client that is there and has sent more is served to the end.
func TestPipelined(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("sleep", "")
	conn := g.dial("GET /v1/sessions/" + id + "/wait?timeout=2500ms HTTP/1.1\r\nHost: localhost\r\n\r\n")
	time.Sleep(50 * time.Millisecond)
	fmt.Fprint(conn, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if got := all.String(); strings.Count(got, "HTTP/1.1 200") != 2 || !strings.Contains(got, `{"status":"ok"}`) {
		t.Errorf("the answers: %s", got)
	}
}

// A connection on which nothing was asked does not hold up the end.
func TestStopsBesideUnusedConnections(t *testing.T) {
	g := newRig(t, nil)
	g.dial("")
	g.dial("GET /v1/hea")
	g.do("GET", "/v1/health", "").is(200) // both are accepted
	begin := time.Now()
	g.stop()
	if err := <-g.stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	close(g.stopped)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
