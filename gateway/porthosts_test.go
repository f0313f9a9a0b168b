package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/testnet"
)

const portSecret = ports.Secret("the secret of the tests")

// hostRig is portRig with host names below boxes.example, and keys.
func hostRig(t *testing.T, change func(*Config)) (*rig, *http.Client, *access.Store) {
	t.Helper()
	keys, err := access.Open(filepath.Join(testdir.New(t), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	g, _ := portRig(t, func(c *Config) {
		c.Domain, err = ports.Parse("boxes.example")
		if err != nil {
			t.Fatal(err)
		}
		c.PortSecret, c.Keys, c.Sandboxes = portSecret, keys, &fakeSandboxes{}
		if change != nil {
			change(c)
		}
	})
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.url[len("http://"):])
	}}
	return g, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, keys
}

// boxURL is that of a program in the sandbox box.
func boxURL(t *testing.T, h http.HandlerFunc) (url, host string) {
	base := inside(t, h)
	host = base[strings.LastIndex(base, "/")+1:] + "-box.boxes.example"
	return "http://" + host, host
}

// Who may reach a port by its host name: by key, token, cookie, or because it is public.
func TestPortHostsWho(t *testing.T) {
	public := false
	g, c, keys := hostRig(t, func(c *Config) { c.PublicPorts = func(agent string) bool { return public && agent == "me" } })
	url, _ := boxURL(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "in "+r.Header.Get("Authorization")+r.Header.Get("Cookie")+r.Header.Get(ports.TrafficHeader))
	})
	mine := g.key(keys, api.NewKey{Name: "mine", Role: "agent", Agents: []string{"me"}})
	other := g.key(keys, api.NewKey{Name: "other", Role: "agent", Agents: []string{"other"}})
	viewer := g.key(keys, api.NewKey{Name: "viewer", Role: "viewer"})
	token, wrong := portSecret.Token("box"), portSecret.Token("bare")
	for _, tt := range []struct {
		name   string
		header []string
		status int
		body   string // or a part of it
	}{
		{"nothing", nil, 401, "has no key"},
		{"key", []string{"Authorization", "Bearer " + mine}, 200, "in "},
		{"token of the gateway", []string{"Authorization", "Bearer " + testToken}, 200, "in "},
		{"key of another", []string{"Authorization", "Bearer " + other}, 404, "no sandbox is behind"},
		{"viewer", []string{"Authorization", "Bearer " + viewer}, 403, "may not"},
		{"wrong key", []string{"Authorization", "Bearer " + mine[:len(mine)-2] + "zz"}, 401, ""},
		{"token", []string{ports.TrafficHeader, token}, 200, "in "},
		{"token as bearer", []string{"Authorization", "Bearer " + token}, 200, "in "},
		{"token of another sandbox", []string{ports.TrafficHeader, wrong}, 403, "not that of this sandbox"},
		{"authorization of the sandbox's own", []string{"Authorization", "Bearer theirs"}, 401, "has no key"},
		{"both", []string{"Authorization", "Bearer theirs", ports.TrafficHeader, token}, 200, "in Bearer theirs"},
		{"cookie", []string{"Cookie", "a=b; __Host-corral-port=" + token}, 200, "in a=b"},
		{"cookie of another", []string{"Cookie", "__Host-corral-port=" + wrong}, 401, ""},
		{"cookie without its prefix", []string{"Cookie", "corral-port=" + token}, 401, ""},
		{"cookie, from this page", []string{"Cookie", "__Host-corral-port=" + token, "Origin", strings.Replace(url, "http", "https", 1), "Sec-Fetch-Site", "same-origin"}, 200, "in "},
		{"cookie, from another sandbox's page", []string{"Cookie", "__Host-corral-port=" + token, "Origin", "https://1-bare.boxes.example"}, 401, ""},
		{"cookie, from another page without its origin", []string{"Cookie", "__Host-corral-port=" + token, "Sec-Fetch-Site", "same-site"}, 401, ""},
		{"cookie, by a link", []string{"Cookie", "__Host-corral-port=" + token, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200, "in "},
		{"cookie, in a frame", []string{"Cookie", "__Host-corral-port=" + token, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 401, ""},
	} {
		a := g.send(c, url+"/", "GET", "", tt.header...)
		if a.status != tt.status || !strings.Contains(a.body, tt.body) || a.status == 200 && a.body != tt.body {
			t.Errorf("%s: %d %q, want %d %q", tt.name, a.status, a.body, tt.status, tt.body)
		}
	}
	public = true
	if a := g.send(c, url+"/", "GET", ""); a.status != 200 || a.body != "in " {
		t.Errorf("public: %d %q", a.status, a.body)
	}
	if a := g.send(c, url+"/", "GET", "", "Authorization", "Bearer "+other); a.status != 404 {
		t.Errorf("public, with a key of another: %d %q", a.status, a.body)
	}
}

// The API is not served by the host of a port, nor a port by any other.
func TestPortHostsAreApart(t *testing.T) {
	g, c, _ := hostRig(t, nil)
	url, host := boxURL(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	auth := []string{"Authorization", "Bearer " + testToken}
	for _, path := range []string{"/v1/sessions", "/metrics", "/mcp", "/console/", "/"} {
		if a := g.send(c, url+path, "GET", "", auth...); a.status != 200 || a.body != path {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
	}
	for _, other := range []string{"box.boxes.example", "0-box.boxes.example", "x.boxes.example", "1-none.boxes.example"} {
		if a := g.send(c, "http://"+other+"/v1/sessions", "GET", "", auth...); a.status != 404 {
			t.Errorf("%s: %d %s", other, a.status, a.body)
		}
	}
	if a := g.send(c, "http://"+host+".evil.example/", "GET", "", auth...); a.status != 403 {
		t.Errorf("another domain: %d %s", a.status, a.body)
	}
	a := g.send(c, fmt.Sprintf("http://%d-box.boxes.example/", testnet.FreePort(t)), "GET", "", append(auth, "Accept", "text/html")...)
	if a.status != 502 || !strings.Contains(a.body, "<h1>502") || !strings.Contains(a.body, "nothing listens") {
		t.Errorf("a port on which nothing listens: %d %s", a.status, a.body)
	}
}

// A page has the whole origin: cookies and redirections are its own, and no further.
func TestPortHostsPage(t *testing.T) {
	g, c, _ := hostRig(t, nil)
	var got *http.Request
	url, host := boxURL(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		h := w.Header()
		h.Add("Set-Cookie", "a=b; Domain=boxes.example; Path=/; HttpOnly")
		h.Add("Set-Cookie", "__Host-corral-port=stolen; Path=/")
		h.Set("Location", "http://"+r.Host+"/next?x#y")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Clear-Site-Data", `"cookies"`)
		w.WriteHeader(http.StatusFound)
	})
	a := g.send(c, url+"/a%2Fb?q", "POST", "x", ports.TrafficHeader, portSecret.Token("box"), "Origin", "https://"+host)
	for name, want := range map[string]string{
		"Set-Cookie": "a=b; Path=/; HttpOnly", "Location": "/next?x#y", "Access-Control-Allow-Origin": "*", "Clear-Site-Data": "", "Content-Security-Policy": "",
	} {
		if v := strings.Join(a.header.Values(name), "|"); v != want {
			t.Errorf("the answer has %s: %q, want %q", name, v, want)
		}
	}
	if got.RequestURI != "/a%2Fb?q" || got.Header.Get("X-Forwarded-Host") != host || got.Header.Get("Origin") != "http://"+got.Host || got.Header.Get(ports.TrafficHeader) != "" || got.Header.Get("X-Forwarded-Prefix") != "" {
		t.Errorf("the sandbox got %s %v", got.RequestURI, got.Header)
	}
}

// A browser shows the token once, and has a cookie from then on. The page's script is
// the one that its policy names.
func TestOpenPage(t *testing.T) {
	g, c, _ := hostRig(t, nil)
	url, host := boxURL(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "in") })
	a := g.send(c, url+openPath, "GET", "").is(200)
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindStringSubmatch(a.body)
	sum := sha256.Sum256([]byte(script[1]))
	if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the policy %q does not name the script, whose sum is %s", csp, base64.StdEncoding.EncodeToString(sum[:]))
	}
	token := portSecret.Token("box")
	g.send(c, url+openPath, "POST", "", ports.TrafficHeader, portSecret.Token("bare")).is(403)
	g.send(c, url+openPath, "POST", "").is(401)
	g.send(c, url+openPath, "POST", "", ports.TrafficHeader, token, "Origin", "https://evil.example").is(401)
	a = g.send(c, url+openPath, "POST", "", ports.TrafficHeader, token, "Origin", "https://"+host, "Sec-Fetch-Site", "same-origin").is(204)
	set := a.header.Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-corral-port="+token+";") || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "Secure") || !strings.Contains(set, "SameSite=Lax") {
		t.Errorf("the cookie is %q", set)
	}
	cookie, _, _ := strings.Cut(set, ";")
	g.send(c, url+"/", "GET", "", "Cookie", cookie).is(200)
	if strings.Contains(g.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// The address of a port, as the API says it, works.
func TestSandboxAddress(t *testing.T) {
	g, c, _ := hostRig(t, nil)
	_, host := boxURL(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "in") })
	port, _, _ := strings.Cut(host, "-")
	var got api.SandboxAddress
	if err := json.Unmarshal([]byte(g.do("GET", "/v1/sandboxes/box/address?port="+port, "").is(200).body), &got); err != nil {
		t.Fatal(err)
	}
	if got.URL != "https://"+host+"/" || got.Open != got.URL+".corral/#"+got.Token || got.Public {
		t.Errorf("%+v", got)
	}
	g.send(c, strings.Replace(got.URL, "https", "http", 1), "GET", "", ports.TrafficHeader, got.Token).is(200)
	for _, query := range []string{"", "?port=0", "?port=x"} {
		g.do("GET", "/v1/sandboxes/box/address"+query, "").code(400, "invalid")
	}
	g.do("GET", "/v1/sandboxes/none/address?port=1", "").code(404, "not-found")
	bare := newRig(t, func(c *Config) { c.Sandboxes = &fakeSandboxes{} })
	bare.do("GET", "/v1/sandboxes/box/address?port=1", "").code(404, "not-found")
}

// WebSockets, events as they come, and HTTP/2 over TLS, also for gRPC inside.
func TestPortHostsProtocols(t *testing.T) {
	dir := testdir.New(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pair(t, cert, key)
	g, _, _ := hostRig(t, func(c *Config) {
		var err error
		if c.TLS, err = listen.TLS(cert, key, c.Log); err != nil {
			t.Fatal(err)
		}
	})
	next := make(chan string)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			kind, data, err := conn.Read(r.Context())
			if err == nil {
				err = conn.Write(r.Context(), kind, append([]byte("back: "), data...))
			}
			if err != nil {
				t.Error(err)
			}
			_ = conn.Close(websocket.StatusNormalClosure, "")
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			for text := range next {
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			}
		default:
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = io.WriteString(w, r.Proto)
			w.Header().Set("Grpc-Status", "7")
		}
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	url := "https://" + srv.URL[strings.LastIndex(srv.URL, ":")+1:] + "-box.boxes.example"
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.url[len("http://"):])
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ask := func(path, kind string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(ports.TrafficHeader, portSecret.Token("box"))
		r.Header.Set("Content-Type", kind)
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for kind, want := range map[string]string{"": "HTTP/1.1", "application/grpc+proto": "HTTP/2.0"} {
		resp := ask("/", kind)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Proto != "HTTP/2.0" || string(body) != want || resp.Trailer.Get("Grpc-Status") != "7" {
			t.Errorf("%q: by %s: %q, %v, %v, want %s", kind, resp.Proto, body, resp.Trailer, err, want)
		}
	}
	events := ask("/events", "")
	for _, text := range []string{"data: 1\n\n", "data: 2\n\n"} {
		next <- text
		got := make([]byte, len(text))
		if _, err := io.ReadFull(events.Body, got); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	close(next)

	one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	header := http.Header{ports.TrafficHeader: {portSecret.Token("box")}, "Origin": {url}}
	conn, _, err := websocket.Dial(ctx, url+"/ws", &websocket.DialOptions{HTTPClient: one, HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := conn.Read(ctx); err != nil || string(data) != "back: hello" {
		t.Errorf("%q, %v", data, err)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")

	// The API is not served over HTTP/2, whatever the connection was made for.
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("the API over HTTP/2: %s", resp.Status)
	}
}
