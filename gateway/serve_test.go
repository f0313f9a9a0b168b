package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
)

// A stop answers what is under way, closes what has no end, takes nothing new
// and kills nothing.
func TestDrain(t *testing.T) {
	began := make(chan struct{})
	g := newRig(t, func(c *Config) {
		c.Policy = &fakePolicy{}
		c.Tools = func(agent string) Tools {
			return fakeTools{agent, func(ctx context.Context, _ string, _ json.RawMessage) (any, error) {
				s, err := c.Sessions.Agent(agent).Begin(ctx, session.Options{Command: corral.Command{Shell: "sleep", ID: "foreground"}})
				if err != nil {
					return nil, err
				}
				close(began)
				st, err := s.Yield(ctx, -1)
				return map[string]any{"status": st.State, "background": st.Background}, err
			}}
		}
	})
	id := g.start("sleep", "")
	follower, err := g.unix.Do(request(t.Context(), t, "GET", "http://localhost/v1/sessions/"+id+"/log?follow=true", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Body.Close()
	foreground, waiting := make(chan answer, 1), make(chan answer, 1)
	go func() { foreground <- g.do("POST", "/v1/exec", `{"command":"x"}`) }()
	go func() { waiting <- g.do("GET", "/v1/sessions/"+id+"/wait?timeout=10m", "") }()
	<-began
	for !strings.Contains(g.do("GET", "/v1/sessions", "").body, "foreground") {
		time.Sleep(time.Millisecond)
	}

	g.server.Drain()
	g.do("GET", "/v1/ready", "").is(503)
	g.do("GET", "/v1/health", "").is(200)
	if a := g.do("POST", "/v1/sessions", `{"command":"sleep"}`).code(503, "unavailable"); a.header.Get("Retry-After") == "" {
		t.Error("the answer does not say to come back")
	}
	if a := g.do("POST", "/v1/explain", `{"command":"sleep"}`).code(503, "unavailable"); a.header.Get("Retry-After") == "" {
		t.Error("the answer about what would become of a command does not say to come back")
	}
	g.stop()
	if a := (<-foreground).is(200); !strings.Contains(a.body, `"background":true,"status":"running"`) {
		t.Errorf("the command in the foreground: %s", a.body)
	}
	if st := (<-waiting).is(200).decoded(); st.Ended() {
		t.Errorf("what was waited for has ended: %+v", st)
	}
	if _, err := api.NewFrameReader(follower.Body).Chunk(make([]byte, 10)); !errors.Is(err, api.ErrPause) {
		t.Errorf("the follower: %v", err)
	}
	if err := <-g.stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	close(g.stopped)
	if _, err := os.Lstat(g.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
	if n := g.sessions.Counts()[session.Running]; n != 2 {
		t.Errorf("%d sessions run", n)
	}
}

// Who does not end in time is cut off.
func TestDrainLimit(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{})
	g := newRig(t, func(c *Config) {
		c.DrainLimit = 50 * time.Millisecond
		c.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			close(release)
		})
	})
	done := make(chan error, 1)
	go func() {
		resp, err := http.NewRequest("POST", "http://localhost/mcp", nil)
		if err == nil {
			_, err = g.unix.Transport.(validating).next.RoundTrip(resp) //nolint:bodyclose // there is none
		}
		done <- err
	}()
	<-began
	g.stop()
	if err := <-g.stopped; !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Serve: %v", err)
	}
	close(g.stopped)
	<-release
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
}

// An operator is told why clients wait for their connection.
func TestCannotAccept(t *testing.T) {
	g := newRig(t, nil)
	full := &fullListener{err: make(chan error, 1)}
	full.err <- &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	server, err := New(g.server.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, full) }()
	for !strings.Contains(g.log.String(), "too many open files") {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if log := g.log.String(); !strings.Contains(log, `level=ERROR msg="clients wait`) || !strings.Contains(log, "LimitNOFILE") {
		t.Error(log)
	}
}

// A fullListener fails once, and then waits until it is closed.
type fullListener struct{ err chan error }

func (l *fullListener) Accept() (net.Conn, error) {
	if err, ok := <-l.err; ok {
		return nil, err
	}
	return nil, net.ErrClosed
}

func (l *fullListener) Close() error {
	close(l.err)
	return nil
}

func (l *fullListener) Addr() net.Addr { return &net.UnixAddr{Name: "/none", Net: "unix"} }

// A socket that cannot be removed, as on a disk that is read-only by now, cuts nobody off.
func TestStopCannotCleanUp(t *testing.T) {
	g := newRig(t, nil)
	g.do("GET", "/v1/health", "").is(200)
	if err := errors.Join(os.Remove(g.socket), os.MkdirAll(filepath.Join(g.socket, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	g.stop()
	if err := <-g.stopped; err == nil || strings.Count(err.Error(), "remove "+g.socket) != 1 || strings.Contains(g.log.String(), "cut off") {
		t.Errorf("Serve: %v; log: %s", err, g.log.String())
	}
	close(g.stopped)
}

// A request for MCP is handed on when all of it is there.
func TestMCPBody(t *testing.T) {
	bodies := make(chan string, 1)
	g := newRig(t, func(c *Config) {
		c.MCP = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			bodies <- fmt.Sprint(string(body), err)
		})
		c.MCP = entered{c.MCP, bodies}
	})
	conn := g.dial("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab")
	select {
	case got := <-bodies:
		t.Errorf("before the end of the body: %q", got)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := io.WriteString(conn, "cd"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"entered", "abcd<nil>"} {
		if got := <-bodies; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// entered says that a request has come.
type entered struct {
	http.Handler
	in chan<- string
}

func (e entered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.in <- "entered"
	e.Handler.ServeHTTP(w, r)
}

// dial sends the beginning of a request.
func (g *rig) dial(text string) *net.UnixConn {
	g.t.Helper()
	conn, err := net.Dial("unix", g.socket)
	if err == nil {
		g.t.Cleanup(func() { conn.Close() })
		_, err = io.WriteString(conn, text)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// A request that was given up has no answer that looks like one.
func TestGivenUp(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("sleep", "")
	conn := g.dial("GET /v1/sessions/" + id + "/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("%q, %v", got, err)
	}
	g.do("POST", "/v1/sessions/"+id+"/kill", "").is(200)
}

func TestReady(t *testing.T) {
	var problem error = errors.New("still looking")
	g := newRig(t, func(c *Config) { c.Ready = func() error { return problem } })
	if a := g.do("GET", "/v1/ready", "").is(503); !strings.Contains(a.body, "starting") {
		t.Errorf("%s", a.body)
	}
	problem = nil
	g.do("GET", "/v1/ready", "").is(200)
}

// What is sent over a connection that is not HTTP, or too large, or never comes
// to an end, is refused.
func TestHostileConnections(t *testing.T) {
	g := newRig(t, nil)
	for name, tt := range map[string]struct{ send, want string }{
		"not HTTP":      {"\x00\x01\x02\r\n\r\n", "HTTP/1.1 400"},
		"large header":  {"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*api.MaxHeader) + "\r\n\r\n", "HTTP/1.1 431"},
		"bad length":    {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", "HTTP/1.1 400"},
		"two lengths":   {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400"},
		"bad chunk":     {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
		"short body":    {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", ""},
		"encoded slash": {"GET /v1/sessions/..%2f..%2fx HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", g.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			go io.WriteString(conn, tt.send) //nolint:errcheck // it may be refused before its end
			if tt.want == "" {
				return
			}
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, tt.want) {
				t.Errorf("the answer is %q, %v, want %s", line, err, tt.want)
			}
		})
	}
	g.do("GET", "/v1/health", "").is(200)
}

// pipes listens for the ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A body that was announced and does not come holds a connection no longer than one that
// is read, also where nothing reads it, and nobody needs a key for it.
func TestBodyThatIsNotRead(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/v1/health", "/v1/sessions", "/nowhere"} {
		t.Run(path[1:], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, listener := &http.Server{Handler: g.server}, make(pipes, 1)
				go server.Serve(listener) //nolint:errcheck // it is closed
				client, inside := net.Pipe()
				listener <- inside
				if err := client.SetDeadline(time.Now().Add(2 * StallLimit)); err != nil {
					t.Fatal(err)
				}
				go io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n") //nolint:errcheck // seen below
				if answer, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
					t.Errorf("the answer is %q, %v", answer, err)
				}
				close(listener)
				_ = client.Close()
				_ = server.Close()
			})
		})
	}
}

// What a stream by HTTP/2 has sent before it was silent for long is not its end.
func TestSilentStream(t *testing.T) {
	g := newRig(t, nil)
	silent := g.server.wrap(route{pattern: "silent", right: access.Public, handle: func(w http.ResponseWriter, _ *http.Request) error {
		for _, text := range []string{"a", "b", "c"} {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			time.Sleep(3 * StallLimit)
		}
		return nil
	}})
	for _, two := range []bool{true, false} {
		t.Run(fmt.Sprint("HTTP/2 ", two), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				protocols := new(http.Protocols)
				protocols.SetHTTP1(!two)
				protocols.SetUnencryptedHTTP2(two)
				server, listener := &http.Server{Handler: silent, Protocols: protocols}, make(pipes, 1)
				go server.Serve(listener) //nolint:errcheck // it is closed
				client := &http.Client{Transport: &http.Transport{Protocols: protocols, DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					listener <- far
					return near, nil
				}}}
				resp, err := client.Do(request(t.Context(), t, "GET", "http://x/", ""))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "abc" {
					t.Errorf("by %s came %q, %v", resp.Proto, got, err)

				}
				_ = resp.Body.Close()
				close(listener)
				_ = server.Close()
				time.Sleep(10 * StallLimit) // until the handler has ended
			})
		})
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("without sessions: %v", err)
	}
	g := newRig(t, func(c *Config) { c.FollowRate = -1 })
	if err := g.server.Serve(t.Context()); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("without listeners: %v", err)
	}
	if g.server.pace.limit != nil {
		t.Error("there is a limit")
	}
}

func TestNotify(t *testing.T) {
	path := filepath.Join(testdir.New(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	g := newRig(t, nil)
	buf := make([]byte, 100)
	for i, want := range []string{"READY=1", "STOPPING=1"} {
		if i == 1 {
			g.stop()
		}
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Errorf("systemd was told %q, %v, want %s", buf[:n], err, want)
		}
	}
}

func TestTracing(t *testing.T) {
	for _, k := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(k, "")
	}
	if p, _, err := Tracing(t.Context()); p != nil || err != nil {
		t.Errorf("without a word: %v, %v", p, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, _, err := Tracing(t.Context()); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an exporter that there is not: %v", err)
	}
	got := make(chan string, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	collector := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.URL.Path, err, strings.Contains(string(body), "corral"))
	})}
	served := make(chan error, 1)
	go func() { served <- collector.Serve(l) }()
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	p, stop, err := Tracing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, func(c *Config) { c.Tracer = p })
	g.do("GET", "/v1/health", "").is(200)
	id := g.start("cat", `,"tty":{}`)
	conn := g.attach(id, "") // through everything that wraps
	g.tell(conn, 2, "x")
	g.hear(conn)
	g.do("DELETE", "/v1/sessions/"+id+"?force=true", "").is(204)
	if err := stop(context.Background()); err != nil {
		t.Error(err)
	}
	if path := <-got; path != "/v1/traces<nil> true" {
		t.Errorf("the collector got %s", path)
	}
	collector.Close()
	<-served
}
