package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
)

const testToken = "0123456789abcdef0123456789abcdef"

// A rig is a gateway over commands that are functions, on TCP and on a Unix
// socket.
type rig struct {
	t        testing.TB
	server   *Server
	sessions *session.Manager
	exec     *fakeexec.Executor
	url      string
	socket   string
	tcp      *http.Client // every answer is held against the document
	unix     *http.Client
	stop     context.CancelFunc
	stopped  chan error
	log      *logtest.Log
}

var programs = map[string]fakeexec.Program{
	"cat":   fakeexec.Cat,
	"sleep": fakeexec.Sleep,
	"echo":  fakeexec.Print("out\n", "err\n", 3),
	"big": func(o *fakeexec.IO) int {
		piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
		for range 64 {
			if _, err := o.Stdout.Write(piece); err != nil {
				return 1
			}
		}
		return 0
	},
}

// newRig starts a gateway; change may alter how.
func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	dir := testdir.New(t)
	g := &rig{t: t, stopped: make(chan error, 1), log: &logtest.Log{}, socket: filepath.Join(dir, api.SocketFile)}
	g.exec = &fakeexec.Executor{Programs: programs, Info: corral.Info{Host: corral.HostGateway, Dir: "/work"}}
	var err error
	g.sessions, err = session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(dir, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return g.exec, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Sessions: g.sessions, Token: testToken, Log: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	if g.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unix, err := listen.Unix(g.socket)
	if err != nil {
		t.Fatal(err)
	}
	g.url = "http://" + tcp.Addr().String()
	var ctx context.Context
	ctx, g.stop = context.WithCancel(context.Background())
	go func() { g.stopped <- g.server.Serve(ctx, tcp, unix) }()
	plain := &http.Transport{}
	local := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.socket)
	}}
	g.tcp = &http.Client{Transport: validating{t: t, next: plain}}
	g.unix = &http.Client{Transport: validating{t: t, next: local}}
	t.Cleanup(func() {
		plain.CloseIdleConnections()
		local.CloseIdleConnections()
		g.close()
	})
	return g
}

func (g *rig) close() {
	g.stop()
	if err, ok := <-g.stopped; ok && err != nil {
		g.t.Errorf("Serve: %v", err)
	}
	if err := errors.Join(g.sessions.Close(), g.exec.Close()); err != nil {
		g.t.Error(err)
	}
}

// tableFor is the table of routes of a server that has everything but MCP.
func (s *Server) tableFor(t testing.TB) []route { return newRig(t, nil).server.table() }

type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// careless sends requests that the document does not allow.
func (g *rig) careless() *http.Client {
	v := g.unix.Transport.(validating)
	v.careless = true
	return &http.Client{Transport: v}
}

// do sends a request over the Unix socket.
func (g *rig) do(method, path, body string, header ...string) answer {
	g.t.Helper()
	return g.send(g.unix, "http://localhost"+path, method, body, header...)
}

func (g *rig) send(c *http.Client, url, method, body string, header ...string) answer {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var r io.Reader
	if body != "" || method == http.MethodPost {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		g.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", api.TypeJSON)
	} else if r != nil {
		req.Header.Set("Content-Type", api.TypeBytes)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s %s: the answer: %v", method, url, err)
	}
	return answer{g.t, resp.StatusCode, resp.Header, string(data)}
}

// start starts a program and returns its ID.
func (g *rig) start(program, more string) string {
	g.t.Helper()
	a := g.do("POST", "/v1/sessions", `{"command":"`+program+`"`+more+`}`)
	return a.is(201).decoded().ID
}

// ended waits for the end of a session.
func (g *rig) ended(id string) session.Status {
	g.t.Helper()
	st := g.do("GET", "/v1/sessions/"+id+"/wait?timeout=20s", "").is(200).decoded()
	if !st.Ended() {
		g.t.Fatalf("session %s does not end", id)
	}
	return st
}

func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("the answer is %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// code checks the status and the code of an error.
func (a answer) code(status int, code string) answer {
	a.t.Helper()
	var e api.Error
	if err := json.Unmarshal([]byte(a.is(status).body), &e); err != nil || e.Error.Code != code || e.Error.Message == "" {
		a.t.Fatalf("the error is %s (%v), want %s", a.body, err, code)
	}
	return a
}

func (a answer) decoded() session.Status {
	a.t.Helper()
	var st session.Status
	if err := json.Unmarshal([]byte(a.body), &st); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return st
}

func request(ctx context.Context, t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.TypeJSON)
	return r
}

// requestOf is a request of a route, about what has an id; POST where any method is served.
func requestOf(pattern, id string) (method, path string) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = http.MethodPost, pattern
	}
	path = strings.NewReplacer("{id}", id, "{write}", "w", "{name}", "n", "{port}", "80", "{path...}", "a", "{what}", "y", "{hash}", "h", "{build}", "b").Replace(path)
	if strings.HasSuffix(path, "/events") || strings.HasSuffix(path, "/changes") {
		path += "?once"
	}
	return method, path
}
