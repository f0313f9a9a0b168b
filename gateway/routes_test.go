package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

func TestSessionsRoutes(t *testing.T) {
	g := newRig(t, nil)
	a := g.do("POST", "/v1/sessions", `{"id":"one","command":"echo","timeout":"90s","notifyOnExit":true}`).is(201)
	if a.header.Get("Location") != "/v1/sessions/one" || a.decoded().ID != "one" || !a.decoded().Background {
		t.Errorf("%v %s", a.header, a.body)
	}
	st := g.ended("one")
	if st.Exit == nil || st.Exit.Code != 3 || st.OutputBytes != 8 {
		t.Errorf("status %+v", st)
	}
	g.do("POST", "/v1/sessions", `{"id":"one","command":"echo","timeout":90}`).is(200)
	g.do("POST", "/v1/sessions", `{"id":"one","command":"cat"}`).code(409, "conflict")
	g.do("GET", "/v1/sessions/one?attach", "").is(200)

	g.start("sleep", `,"id":"two"`)
	g.do("POST", "/v1/sessions", `{"id":"three","command":"sleep"}`, api.HeaderAgent, "other").is(201)
	var list api.Sessions[struct {
		ID string `json:"sessionId"`
	}]
	for query, want := range map[string]int{"": 2, "?agent=*": 3} {
		if err := json.Unmarshal([]byte(g.do("GET", "/v1/sessions"+query, "").is(200).body), &list); err != nil || len(list.Sessions) != want {
			t.Errorf("%d sessions with %q, want %d (%v)", len(list.Sessions), query, want, err)
		}
	}
	g.do("GET", "/v1/sessions/three", "").code(404, "not-found")
	g.do("GET", "/v1/sessions/three", "", api.HeaderAgent, "other").is(200)

	if st := g.do("GET", "/v1/sessions/two/wait?timeout=10ms", "").is(200).decoded(); st.Ended() {
		t.Errorf("sleep has ended: %+v", st)
	}
	g.do("DELETE", "/v1/sessions/two", "").code(409, "running")
	g.do("POST", "/v1/sessions/two/signal", `{"signal":"USR1"}`).is(204)
	if st := g.ended("two"); st.Exit.Signal != corral.SIGUSR1 {
		t.Errorf("it ended by %v", st.Exit)
	}
	g.do("POST", "/v1/sessions/two/signal", `{"signal":"TERM"}`).code(409, "ended")
	g.do("DELETE", "/v1/sessions/two", "").is(204)
	g.do("DELETE", "/v1/sessions/two", "").code(404, "not-found")
	if st := g.do("POST", "/v1/sessions/three/kill", "", api.HeaderAgent, "other").is(200).decoded(); !st.Ended() {
		t.Errorf("it was not killed: %+v", st)
	}
	g.start("sleep", `,"id":"four","tty":{}`)
	g.do("POST", "/v1/sessions/four/resize", `{"rows":24,"cols":80}`).is(204)
	g.do("DELETE", "/v1/sessions/four?force=true", "").is(204)
	g.start("sleep", `,"id":"five"`)
	g.do("POST", "/v1/sessions/five/resize", `{"rows":24,"cols":80}`).code(501, "unsupported")
}

func TestErrors(t *testing.T) {
	g := newRig(t, nil)
	g.start("sleep", `,"id":"s"`)
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/", "", 404, "not-found"},
		{"GET", "/v1/nothing", "", 404, "not-found"},
		{"PUT", "/v1/sessions", "{}", 405, "invalid"},
		{"HEAD", "/v1/sessions/s/log", "", 400, ""},
		{"POST", "/v1/sessions", "", 400, "invalid"},
		{"POST", "/v1/sessions", "[]", 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo"} x`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","colour":"red"}`, 400, "invalid"},
		{"POST", "/v1/sessions", "{\"command\":\"\xff\"}", 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","id":"../x"}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":" "}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","args":["x"]}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","background":false}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","timeout":90000000000}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","timeout":"soon"}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":1}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","command":"cat"}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","Command":"cat"}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","env":{"A":"1","A":"2"}}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","timeout":-1}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","timeout":-1e-12}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","timeout":"-1ns"}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"echo","binary":{"command":"ZWNobw=="}}`, 400, "invalid"},
		{"POST", "/v1/sessions", `{"command":"` + strings.Repeat("x", api.MaxBody) + `"}`, 413, "too-large"},
		{"GET", "/v1/sessions/none", "", 404, "not-found"},
		{"GET", "/v1/sessions/s/wait?timeout=-1s", "", 400, "invalid"},
		{"GET", "/v1/sessions/s/wait?timeout=1h", "", 400, "invalid"},
		{"GET", "/v1/sessions/s/wait?timeout=x", "", 400, "invalid"},
		{"GET", "/v1/sessions/none/wait", "", 404, "not-found"},
		{"GET", "/v1/sessions/s/log?offset=-1", "", 400, "invalid"},
		{"GET", "/v1/sessions/s/log?follow=perhaps", "", 400, "invalid"},
		{"GET", "/v1/sessions/none/log", "", 404, "not-found"},
		{"GET", "/v1/sessions/none/log/stat", "", 404, "not-found"},
		{"GET", "/v1/sessions/s/output?stream=third", "", 400, "invalid"},
		{"GET", "/v1/sessions/none/output", "", 404, "not-found"},
		{"POST", "/v1/sessions/s/signal", `{"signal":"SIGNONE"}`, 400, "invalid"},
		{"POST", "/v1/sessions/none/signal", `{"signal":"TERM"}`, 404, "not-found"},
		{"POST", "/v1/sessions/s/resize", `{"rows":0,"cols":80}`, 400, "invalid"},
		{"POST", "/v1/sessions/none/kill", "", 404, "not-found"},
		{"POST", "/v1/sessions/s/stdin", "x", 409, "stdin-closed"},
		{"POST", "/v1/sessions/none/stdin", "x", 404, "not-found"},
		{"DELETE", "/v1/sessions/s/stdin/w", "", 404, "not-found"},
		{"GET", "/v1/sessions/s/attach", "", 400, "invalid"},
		{"GET", "/v1/sessions/none/attach", "", 404, "not-found"},
		{"GET", "/v1/events?after=x", "", 400, "invalid"},
		// No client could take an id that great, nor come back with it.
		{"GET", "/v1/events?once&after=4611686018427387905", "", 400, "invalid"},
		{"GET", "/v1/sessions/s/log?offset=4611686018427387905", "", 400, "invalid"},
		{"POST", "/v1/exec", "{}", 501, "unsupported"},
		{"DELETE", "/v1/sessions/none", "", 404, "not-found"},
	} {
		t.Run(fmt.Sprintf("%s %s %.40s", tt.method, tt.path, tt.body), func(t *testing.T) {
			a := g.send(g.careless(), "http://localhost"+tt.path, tt.method, tt.body)
			a.t = t
			if a.is(tt.status); tt.code != "" {
				a.code(tt.status, tt.code)
			}
		})
	}
	g.do("GET", "/v1/sessions", "", api.HeaderAgent, "no such name").code(400, "invalid")
	g.do("GET", "/v1/events", "", "Last-Event-ID", "x").code(400, "invalid")
	if a := g.send(g.careless(), "http://localhost/v1/sessions", "PATCH", ""); a.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
}

// fakeTools answer what they are told to.
type fakeTools struct {
	agent string
	call  func(ctx context.Context, name string, args json.RawMessage) (any, error)
}

func (f fakeTools) Call(ctx context.Context, name string, args json.RawMessage) (any, error) {
	return f.call(ctx, name, args)
}

func (f fakeTools) List(context.Context) []Tool {
	return []Tool{{Name: "exec", Description: "for " + f.agent, InputSchema: json.RawMessage(`{"type":"object"}`)}}
}

// What can be read in two ways reaches no tool.
func TestToolKeysTwice(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Tools = func(agent string) Tools {
			return fakeTools{agent, func(context.Context, string, json.RawMessage) (any, error) {
				t.Error("the tool was called")
				return nil, nil
			}}
		}
	})
	for _, path := range []string{"/v1/exec", "/v1/process", "/v1/tools/exec"} {
		a := g.send(g.careless(), "http://localhost"+path, "POST", `{"command":"echo","command":"cat"}`)
		if a.code(400, "invalid"); !strings.Contains(a.body, `the key \"command\" is given twice`) {
			t.Errorf("%s", a.body)
		}
	}
}

func TestTools(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	g := newRig(t, func(c *Config) {
		c.Tools = func(agent string) Tools {
			return fakeTools{agent, func(ctx context.Context, name string, args json.RawMessage) (any, error) {
				var req struct{ Command string }
				if err := json.Unmarshal(args, &req); err != nil {
					return nil, err
				}
				switch req.Command {
				case "panic":
					panic("by order")
				case "wait":
					close(began)
					<-ctx.Done()
					ended <- ctx.Err()
					return nil, ctx.Err()
				case "denied":
					return nil, corral.Errorf(corral.ErrDenied, "ask", "it is denied")
				case "unencodable":
					return map[string]any{"status": func() {}}, nil
				case "odd":
					return nil, errors.New("odd \xff")
				}
				return map[string]any{"status": "completed", "tool": name, "agent": agent, "args": args}, nil
			}}
		}
	})
	a := g.do("POST", "/v1/exec", `{"command":"x"}`, api.HeaderAgent, "me").is(200)
	if want := `{"agent":"me","args":{"command":"x"},"status":"completed","tool":"exec"}` + "\n"; a.body != want {
		t.Errorf("answer %s, want %s", a.body, want)
	}
	if a := g.do("POST", "/v1/process", `{"action":"list"}`).is(200); !strings.Contains(a.body, `"tool":"process"`) {
		t.Errorf("answer %s", a.body)
	}
	if a := g.do("GET", "/v1/tools", "").is(200); !strings.Contains(a.body, "for main") {
		t.Errorf("answer %s", a.body)
	}
	g.do("POST", "/v1/exec", `{"command":"denied"}`).code(403, "denied")
	g.do("POST", "/v1/exec", `{"command":"unencodable"}`).code(500, "internal")
	g.do("POST", "/v1/exec", `{"command":"odd"}`).code(500, "internal")
	for _, body := range []string{"", "null", "[]", "{", `"x"`} {
		g.send(g.careless(), "http://localhost/v1/exec", "POST", body).code(400, "invalid")
	}
	g.do("POST", "/v1/exec", `{"command":"panic"}`).code(500, "internal")
	if log := g.log.String(); !strings.Contains(log, "by order") || !strings.Contains(log, "routes_test.go") {
		t.Errorf("the panic is not in the log: %s", log)
	}

	// A client that goes away ends the call.
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		r := request(ctx, t, "POST", "http://localhost/v1/exec", `{"command":"wait"}`)
		resp, err := g.unix.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	<-began
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool's context ended with %v", err)
	}
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
}

func TestRequestIDs(t *testing.T) {
	g := newRig(t, nil)
	for given, kept := range map[string]bool{"": false, "abc-1": true, "a b": false, strings.Repeat("x", 65): false} {
		got := g.do("GET", "/v1/health", "", api.HeaderRequestID, given).is(200).header.Get(api.HeaderRequestID)
		if got == "" || (got == given) != kept {
			t.Errorf("the request id is %q, it was %q", got, given)
		}
	}
	g.do("GET", "/v1/sessions/none", "", api.HeaderRequestID, "find-me")
	if log := g.log.String(); !strings.Contains(log, "id=find-me method=GET path=/v1/sessions/none status=404") {
		t.Errorf("the log has no such request: %s", log)
	}
}

func TestMetrics(t *testing.T) {
	g := newRig(t, nil)
	g.ended(g.start("echo", `,"notifyOnExit":true`))
	g.start("sleep", "")
	g.do("GET", "/v1/sessions/none", "")
	body := g.do("GET", "/metrics", "").is(200).body
	for _, want := range []string{
		`corral_sessions{state="running"} 1`, `corral_sessions{state="completed"} 1`, `corral_sessions{state="unknown"} 0`,
		`corral_http_requests_total{route="GET /v1/sessions/{id}",status="404"} 1`,
		`corral_http_requests_total{route="POST /v1/sessions",status="201"} 2`,
		`corral_http_request_duration_seconds_count{route="POST /v1/sessions"} 2`,
		"corral_followers 0", "corral_log_read_bytes_total 0", "corral_stdin_bytes_total 0", "corral_events_total", "go_goroutines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
