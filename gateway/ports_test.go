package gateway

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/sumserver"
	"github.com/corral-exec/corral/internal/test/testnet"
	"github.com/corral-exec/corral/internal/tunnel"
)

// portRig is a gateway with one sandbox, "box" of the agent "me", in which ports are
// those of this machine. Answers need not be in the document: they are the sandbox's.
func portRig(t *testing.T, change func(*Config)) (*rig, *http.Client) {
	t.Helper()
	g := newRig(t, func(c *Config) {
		c.DialPort = func(ctx context.Context, agent, name string, port int) (net.Conn, error) {
			if agent != "me" || name != "box" {
				return nil, corral.Errorf(corral.ErrNotFound, "", "the agent %s has no sandbox %s", agent, name)
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", port))
			if err != nil {
				return nil, corral.Errorf(corral.ErrNotListening, "start <it>", "nothing listens on port %d", port)
			}
			return conn, nil
		}
		if change != nil {
			change(c)
		}
	})
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.socket)
	}}
	return g, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// inside serves a handler, as a program in a sandbox, and returns the URL by which the
// gateway leads to it.
func inside(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://localhost/v1/sandboxes/box/ports/" + u.Port()
}

// The sandbox gets the request as it is, without what is the gateway's.
func TestPortsRequest(t *testing.T) {
	g, c := portRig(t, nil)
	var got *http.Request
	var body string
	base := inside(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		w.Header().Set("Corral-File", "{}")
		w.Header().Set("X-Request-Id", "theirs")
		w.Header().Set("Clear-Site-Data", `"*"`)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Add("Set-Cookie", " Corral-key =mine; Path=/")
		w.Header().Set("Location", "/login?next=%2Fx#top")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "tea")
		w.Header().Set("X-Sum", "7")
	})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "HEAD"} {
		a := g.send(c, base+"/a%2Fb/c%20d?x=1;y=%zz&z", method, "body", api.HeaderAgent, "me", api.HeaderSender, "slack:u1", "corral-unknown", "x",
			"Authorization", "Bearer "+testToken, "Cookie", "k=v; __Host-corral-key=secret; l=\"w x\"", "Accept-Encoding", "gzip", "Connection", "X-Hop", "X-Hop", "1", api.HeaderRequestID, "mine")
		if a.status != http.StatusTeapot || a.body != "tea" && method != "HEAD" {
			t.Errorf("%s: %d %q", method, a.status, a.body)
		}
		if got.Method != method || got.RequestURI != "/a%2Fb/c%20d?x=1;y=%zz&z" || body != "body" || !strings.HasPrefix(got.Host, "localhost:") {
			t.Errorf("%s: the sandbox got %s %s of %s with %q", method, got.Method, got.RequestURI, got.Host, body)
		}
		for name := range got.Header {
			if name == "Authorization" || strings.HasPrefix(name, "Corral-") || name == "X-Hop" {
				t.Errorf("%s: the sandbox got the header %s: %q", method, name, got.Header[name])
			}
		}
		if got.Header.Get("Cookie") != "k=v; l=\"w x\"" || got.Header.Get("X-Forwarded-Prefix") != strings.TrimPrefix(base, "http://localhost") || got.Header.Get(api.HeaderRequestID) != "mine" {
			t.Errorf("%s: %v", method, got.Header)
		}
		for name, want := range map[string]string{
			"Corral-File": "", "Clear-Site-Data": "", "Access-Control-Allow-Origin": "", api.HeaderRequestID: "mine", "Set-Cookie": "a=b",
			"X-Content-Type-Options": "nosniff", "Location": strings.TrimPrefix(base, "http://localhost") + "/login?next=%2Fx#top",
		} {
			if v := a.header.Get(name); v != want {
				t.Errorf("%s: the answer has %s: %q, want %q", method, name, v, want)
			}
		}
		if n := len(a.header.Values("Set-Cookie")); n != 1 {
			t.Errorf("%s: %d cookies are set: %q", method, n, a.header.Values("Set-Cookie"))
		}
		if csp := a.header.Values("Content-Security-Policy"); len(csp) != 2 || csp[1] != "sandbox" {
			t.Errorf("%s: the policy is %q", method, csp)
		}
	}
	if !strings.Contains(g.do("GET", "/metrics", "").is(200).body, `corral_port_bytes_total{direction="in"}`) {
		t.Error("the bytes are not counted")
	}
}

// What is written is sent at once, both ways, however long it takes.
func TestPortsStream(t *testing.T) {
	_, c := portRig(t, nil)
	base := inside(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Type", "text/event-stream")
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "data: %s\n\n", lines.Text())
			_ = rc.Flush()
		}
	})
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/", r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(api.HeaderAgent, "me")
	go func() { _, _ = io.WriteString(w, "0\n") }()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := events.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(w, i+1); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if _, err := io.ReadAll(events); err != nil {
		t.Error(err)
	}
}

func TestPortsWebSocket(t *testing.T) {
	_, c := portRig(t, nil)
	base := inside(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		kind, data, err := conn.Read(r.Context())
		if err == nil {
			_ = conn.Write(r.Context(), kind, append([]byte("echo "), data...))
		}
		_ = conn.Close(websocket.StatusNormalClosure, "bye")
	})
	conn, _, err := websocket.Dial(t.Context(), base+"/ws", &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{api.HeaderAgent: {"me"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "echo hi" {
		t.Errorf("%q, %v", data, err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the end: %v", err)
	}
}

func TestPortsErrors(t *testing.T) {
	g, c := portRig(t, nil)
	me := []string{api.HeaderAgent, "me"}
	free := fmt.Sprint("http://localhost/v1/sandboxes/box/ports/", testnet.FreePort(t))
	g.send(c, free+"/", "GET", "", me...).code(502, "not-listening")
	g.send(c, free+"/", "POST", "body", me...).code(502, "not-listening")
	page := g.send(c, free+"/x", "GET", "", append(me, "Accept", "text/html,*/*")...).is(502)
	if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || !strings.Contains(page.body, "nothing listens on port") ||
		!strings.Contains(page.body, "start &lt;it&gt;") || !strings.HasPrefix(page.header.Get("Content-Security-Policy"), "sandbox;") {
		t.Errorf("%v\n%s", page.header, page.body)
	}
	up := append(me, "Connection", "Upgrade", "Upgrade", "tcp")
	g.send(c, free, "GET", "", up...).code(502, "not-listening")
	for path, code := range map[string]string{"0/": "invalid", "65536/": "invalid", "x/": "invalid", "-1": "invalid"} {
		g.send(c, "http://localhost/v1/sandboxes/box/ports/"+path, "GET", "", me...).code(400, code)
	}
	// It is the agent's alone.
	base := inside(t, func(http.ResponseWriter, *http.Request) { t.Error("another agent came through") })
	g.send(c, base+"/", "GET", "", api.HeaderAgent, "other").code(404, "not-found")
	g.send(c, base, "GET", "", append(up, api.HeaderAgent, "other")...).code(404, "not-found")
	g.send(c, strings.Replace(base, "box", "other", 1)+"/", "GET", "", me...).code(404, "not-found")
	// Without a key the answer is an error that says so.
	g.send(http.DefaultClient, g.url+strings.TrimPrefix(base, "http://localhost")+"/", "GET", "", me...).code(401, "unauthorized")
	// What is no tunnel.
	g.send(c, base, "GET", "", me...).code(400, "invalid")
	http.DefaultClient.CloseIdleConnections()
}

func TestPortsNoHTTP(t *testing.T) {
	g, c := portRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := make(chan string)
	go func() {
		for text := range answers {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, text)
			conn.Close()
		}
	}()
	defer close(answers)
	base := fmt.Sprint("http://localhost/v1/sandboxes/box/ports/", l.Addr().(*net.TCPAddr).Port)
	for _, text := range []string{"", "SSH-2.0-x\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"} {
		answers <- text
		g.send(c, base+"/", "GET", "", api.HeaderAgent, "me").code(502, "lost")
	}
	// An answer that breaks off does not look complete.
	answers <- "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(api.HeaderAgent, "me")
	resp, err := c.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
	}
	if err == nil {
		t.Error("an answer that broke off looks complete")
	}
}

// upgraded opens a tunnel by hand.
func upgraded(t *testing.T, g *rig, port int) (*net.UnixConn, *bufio.Reader) {
	t.Helper()
	return upgradedTo(t, g, port, "TCP", "early ")
}

func upgradedTo(t *testing.T, g *rig, port int, protocol, early string) (*net.UnixConn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", g.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /v1/sandboxes/box/ports/%d HTTP/1.1\r\nHost: localhost\r\nCorral-Agent: me\r\nConnection: keep-alive, Upgrade\r\nUpgrade: %s\r\n\r\n%s", port, protocol, early)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 101 || !strings.HasPrefix(strings.ToLower(protocol), resp.Header.Get("Upgrade")) || resp.Header.Get(api.HeaderRequestID) == "" {
		t.Fatalf("%+v, %v", resp, err)
	}
	return conn.(*net.UnixConn), r
}

func TestTunnel(t *testing.T) {
	g, _ := portRig(t, nil)
	conn, r := upgraded(t, g, sumserver.Port(t))
	sum := sha256.New()
	sum.Write([]byte("early "))
	if _, err := io.Copy(conn, io.TeeReader(io.LimitReader(rand.Reader, 16<<20), sum)); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != hex.EncodeToString(sum.Sum(nil)) {
		t.Errorf("%s, %v; want %x\n%s", got, err, sum.Sum(nil), g.log)
	}
}

// A connection that is handed over is joined with the port, until the client lets go of it.
func TestTunnelHandOver(t *testing.T) {
	g, _ := portRig(t, nil)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for conn, err := echo.Accept(); err == nil; conn, err = echo.Accept() {
			go func() { _, _ = io.Copy(conn, conn); conn.Close() }()
		}
	}()
	over := func() *net.UnixConn {
		conn, _ := upgradedTo(t, g, echo.Addr().(*net.TCPAddr).Port, "tcp-handover, tcp", "")
		return conn
	}
	handed := func(to *net.UnixConn) net.Conn {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close() })
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if err := tunnel.HandOver(to, far.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
		_ = near.SetDeadline(time.Now().Add(10 * time.Second))
		return near
	}
	hello := func(conn net.Conn) {
		t.Helper()
		got := make([]byte, 5)
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	closed := func(conn net.Conn) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it stays open: %d, %v", n, err)
		}
	}

	control := over()
	conn := handed(control)
	hello(conn)
	_ = conn.(*net.TCPConn).CloseWrite()
	closed(conn)
	closed(control)

	control = over()
	conn = handed(control)
	hello(conn)
	control.Close()
	closed(conn)

	control = over()
	_, _ = control.Write([]byte("no connection"))
	closed(control)
}

// A tunnel counts as a client that stays, and ends with the gateway.
func TestTunnelEnds(t *testing.T) {
	g, c := portRig(t, func(c *Config) { c.MaxFollowers = 1 })
	port := sumserver.Port(t)
	conn, r := upgraded(t, g, port)
	g.send(c, fmt.Sprintf("http://localhost/v1/sandboxes/box/ports/%d/", port), "GET", "", api.HeaderAgent, "me").code(503, "unavailable")
	begin := time.Now()
	g.stop()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("the end: %v", err)
	}
	if err := <-g.stopped; err != nil {
		t.Error(err)
	}
	close(g.stopped)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v until the gateway was gone", took)
	}
}

// Nothing leads to a port where there are no sandboxes.
func TestNoPorts(t *testing.T) {
	g := newRig(t, nil)
	g.do("GET", "/v1/sandboxes/box/ports/80/", "").code(404, "not-found")
	if g.do("GET", "/v1/sandboxes/box/ports/80", "").status != 404 {
		t.Error("there are no sandboxes")
	}
	g.do("GET", "/v1/nodes/builder/ports/80/", "").code(404, "not-found")
}

// The ports of nodes are those of the agent that a request names, and never of the owner
// of a sandbox that has the node's name.
func TestNodesPorts(t *testing.T) {
	g, c := portRig(t, func(c *Config) {
		dial := c.DialPort
		c.DialNode = func(ctx context.Context, agent, name string, port int) (net.Conn, error) {
			if agent != "main" || name != "box" {
				return nil, corral.Errorf(corral.ErrDenied, "", "the node refuses the agent %s", agent)
			}
			return dial(ctx, "me", name, port)
		}
	})
	base := strings.Replace(inside(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("X-Forwarded-Prefix"))
	}), "/sandboxes/", "/nodes/", 1)
	if a := g.send(c, base+"/a", "GET", ""); a.status != 200 || a.body != "/a "+strings.TrimPrefix(base, "http://localhost") {
		t.Errorf("%d %q", a.status, a.body)
	}
	g.send(c, base+"/a", "GET", "", api.HeaderAgent, "me").code(403, "denied")
}
