package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// newConsoleRig is a gateway with keys, in which browsers can sign in.
func newConsoleRig(t *testing.T) (*rig, *access.Store) {
	t.Helper()
	dir := testdir.New(t)
	keys, err := access.Open(filepath.Join(dir, api.KeysFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	signIns, err := access.OpenSignIns(filepath.Join(dir, api.SignInFile))
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, func(c *Config) { c.Keys, c.SignIns = keys, signIns }), keys
}

func makeKey(t *testing.T, keys *access.Store, n api.NewKey) api.MadeKey {
	t.Helper()
	made, err := keys.Create(n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A browser has what a sign-in gave it.
type browser struct {
	*rig
	cookie *http.Cookie
	token  string
}

func (g *rig) signIn(secret string) browser {
	g.t.Helper()
	a := g.send(g.tcp, g.url+"/console/login", "POST", "", "Authorization", "Bearer "+secret).is(200)
	var in api.SignedIn
	if err := json.Unmarshal([]byte(a.body), &in); err != nil {
		g.t.Fatal(err)
	}
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 || in.Token == "" || strings.Contains(a.body, cookies[0].Value) || time.Until(in.ExpiresAt) < time.Hour {
		g.t.Fatalf("the answer %s, cookies %v", a.body, cookies)
	}
	return browser{g, cookies[0], in.Token}
}

// call sends a request as a page of the console does.
func (b browser) call(method, path, body string, header ...string) answer {
	b.t.Helper()
	return b.send(b.tcp, b.url+path, method, body, append([]string{
		"Cookie", b.cookie.Name + "=" + b.cookie.Value, api.HeaderConsole, b.token, "Sec-Fetch-Site", "same-origin", "Origin", b.url,
	}, header...)...)
}

func TestConsolePages(t *testing.T) {
	g, _ := newConsoleRig(t)
	page := g.send(g.tcp, g.url+"/console/sessions/x?agent=main", "GET", "").is(200)
	for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
		if page.header.Get(name) != want {
			t.Errorf("%s is %q", name, page.header.Get(name))
		}
	}
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(page.body)
	if script == nil {
		t.Fatalf("the page has no script: %s", page.body)
	}
	sum := sha256.Sum256([]byte(script[1]))
	csp := page.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(csp, want) || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("the policy is %q", csp)
		}
	}
	files := regexp.MustCompile(`(?:src|href)="(/console/assets/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
	if len(files) != 3 {
		t.Fatalf("the page has the files %q", files)
	}
	for _, f := range files {
		a := g.send(g.tcp, g.url+f[1], "GET", "").is(200)
		if !strings.Contains(a.header.Get("Cache-Control"), "immutable") || a.header.Get("Content-Type") == "" || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v", f[1], a.header)
		}
	}
	for _, path := range []string{"/console/assets/app.js", "/console/assets/0/app.js", "/console/assets/"} {
		g.send(g.tcp, g.url+path, "GET", "").is(404)
	}
	if a := g.send(g.tcp, g.url+"/", "GET", "", "Accept", "text/html,*/*").is(200); !strings.Contains(a.body, "<title>Corral") {
		t.Errorf("/ leads a browser to %s", a.body)
	}
	g.send(g.tcp, g.url+"/", "GET", "").code(404, "not-found")
	if a := g.send(g.careless(), "http://localhost/console", "GET", ""); !strings.Contains(a.body, "Corral") {
		t.Errorf("/console leads to %s", a.body)
	}
}

func TestSignIn(t *testing.T) {
	g, keys := newConsoleRig(t)
	made := makeKey(t, keys, api.NewKey{Name: "v", Role: "viewer"})
	b := g.signIn(made.Secret)
	if port := g.url[strings.LastIndexByte(g.url, ':')+1:]; b.cookie.Name != "corral-"+port || !ports.OwnCookie(b.cookie.Name) || !ports.OwnCookie("__Host-"+b.cookie.Name) {
		t.Errorf("the cookie's name is %q", b.cookie.Name)
	}
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %v", c)
	}
	if a := b.call("GET", "/v1/key", "").is(200); !strings.Contains(a.body, `"name":"v"`) || !strings.Contains(a.body, `"rights":["read"]`) {
		t.Errorf("the key is %s", a.body)
	}
	// What it may is what the key may.
	b.call("GET", "/v1/sessions", "").is(200)
	b.call("POST", "/v1/sessions", `{"command":"echo"}`).code(403, "denied")
	b.call("GET", "/v1/keys", "").code(403, "denied")
	b.call("POST", "/v1/console/links", "").code(403, "denied")

	cookie := b.cookie.Name + "=" + b.cookie.Value
	for name, header := range map[string][]string{
		"no token":            {"Cookie", cookie},
		"another token":       {"Cookie", cookie, api.HeaderConsole, testToken},
		"no cookie":           {api.HeaderConsole, b.token},
		"another cookie":      {"Cookie", b.cookie.Name + "=" + testToken, api.HeaderConsole, b.token},
		"another port's name": {"Cookie", "corral-1=" + b.cookie.Value, api.HeaderConsole, b.token},
		"the cookie as a key": {"Authorization", "Bearer " + b.cookie.Value},
	} {
		for _, req := range [][2]string{{"GET", "/v1/sessions"}, {"GET", "/v1/events?once"}, {"POST", "/v1/sessions"}} {
			t.Run(name+" "+req[0]+req[1], func(t *testing.T) {
				a := g.send(g.careTCP(), g.url+req[1], req[0], "", header...)
				a.t = t
				a.code(401, "unauthorized")
			})
		}
	}
	for name, header := range map[string][]string{
		"another site":              {"Sec-Fetch-Site", "cross-site"},
		"another port of this host": {"Sec-Fetch-Site", "same-site"},
		"another origin":            {"Origin", "http://127.0.0.1:1"},
		"no origin":                 {"Origin", "null"},
		"another name":              {"Host", "evil.example"},
	} {
		for _, req := range [][2]string{{"GET", "/v1/sessions"}, {"GET", "/v1/events?once"}, {"GET", "/v1/sessions/s/attach"}, {"DELETE", "/v1/sessions/s"}} {
			t.Run(name+" "+req[1], func(t *testing.T) {
				a := b.call(req[0], req[1], "", header...)
				a.t = t
				if a.status != 403 && a.status != 401 {
					t.Errorf("it is answered %d: %s", a.status, a.body)
				}
			})
		}
	}

	// A sign-in needs a key, and ends with it.
	b.call("POST", "/console/login", "").code(400, "invalid")
	if err := keys.Revoke(made.ID); err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/v1/sessions", "").code(401, "unauthorized")
}

// careTCP sends over TCP what the document does not allow.
func (g *rig) careTCP() *http.Client {
	v := g.tcp.Transport.(validating)
	v.careless = true
	return &http.Client{Transport: v}
}

func TestSignOut(t *testing.T) {
	g, keys := newConsoleRig(t)
	b := g.signIn(makeKey(t, keys, api.NewKey{Name: "a", Role: "admin"}).Secret)
	b.call("GET", "/v1/keys", "").is(200)
	a := b.call("DELETE", "/console/login", "").is(204)
	if cookies := (&http.Response{Header: a.header}).Cookies(); len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v", cookies)
	}
	b.call("GET", "/v1/keys", "").code(401, "unauthorized")
}

// The gateway's token signs in as what it is, and no longer when there is another.
// Signing out ends what is open in other tabs, and nothing of other browsers.
func TestSignOutEndsStreams(t *testing.T) {
	g, keys := newConsoleRig(t)
	secret := makeKey(t, keys, api.NewKey{Name: "v", Role: "viewer"}).Secret
	one, two := g.signIn(secret), g.signIn(secret)
	ended := make(chan *browser, 2)
	for _, b := range []*browser{&one, &two} {
		begun := make(chan struct{})
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/v1/events?agent=*", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.AddCookie(b.cookie)
			r.Header.Set(api.HeaderConsole, b.token)
			resp, err := g.tcp.Transport.(validating).next.RoundTrip(r)
			close(begun)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // until it is cut off
			ended <- b
		}()
		<-begun
	}
	one.call("DELETE", "/console/login", "").is(204)
	select {
	case b := <-ended:
		if b != &one {
			t.Error("the stream of the other browser ended")
		}
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on after the browser was signed out")
	}
	two.call("DELETE", "/console/login", "").is(204)
	<-ended
}

func TestSignInByToken(t *testing.T) {
	g, _ := newConsoleRig(t)
	b := g.signIn(testToken)
	if a := b.call("GET", "/v1/key", "").is(200); !strings.Contains(a.body, `"name":"token"`) {
		t.Errorf("the key is %s", a.body)
	}
	b.call("POST", "/v1/overrides", "").is(405)
	g.server.cfg.Token = strings.ToUpper(testToken)
	b.call("GET", "/v1/key", "").code(401, "unauthorized")
}

func TestConsoleLink(t *testing.T) {
	g, _ := newConsoleRig(t)
	link := func() string {
		var l api.ConsoleLink
		if err := json.Unmarshal([]byte(g.do("POST", "/v1/console/links", "").is(201).body), &l); err != nil || time.Until(l.ExpiresAt) > access.LinkTTL {
			t.Fatal(l, err)
		}
		if !strings.HasPrefix(l.URL, g.url+"/console/#link=") {
			t.Fatalf("the link is %s", l.URL)
		}
		_, secret, _ := strings.Cut(l.URL, "=")
		return secret
	}
	secret := link()
	// It is good for signing in, and for nothing else.
	for _, path := range []string{"/v1/sessions", "/v1/keys"} {
		g.send(g.tcp, g.url+path, "GET", "", "Authorization", "Bearer "+secret).code(401, "unauthorized")
	}
	b := g.signIn(secret)
	if a := b.call("GET", "/v1/key", "").is(200); !strings.Contains(a.body, `"name":"owner"`) {
		t.Errorf("the key is %s", a.body)
	}
	b.call("GET", "/v1/keys", "").is(200)
	for _, wrong := range []string{secret, "corrallink_", "corrallink_x"} {
		g.send(g.tcp, g.url+"/console/login", "POST", "", "Authorization", "Bearer "+wrong).code(401, "unauthorized")
	}
	if strings.Contains(g.log.String(), secret) || strings.Contains(g.log.String(), b.cookie.Value) || strings.Contains(g.log.String(), b.token) {
		t.Error("a secret is in the log")
	}
}

// A listener for clients of E2B has no console: no link leads there.
func TestNoConsoleOnE2B(t *testing.T) {
	g, _ := newConsoleRig(t)
	server, err := New(g.server.cfg)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unix, err := listen.Unix(filepath.Join(testdir.New(t), api.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, ForE2B(tcp), unix) }()
	g.socket = unix.Addr().String()
	a := g.do("POST", "/v1/console/links", "")
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if a.code(503, "unavailable"); !strings.Contains(a.body, "--listen") {
		t.Errorf("the hint: %s", a.body)
	}
}

// The cookie alone opens a page of a port, which is a link, and nothing else there.
func TestPortByCookie(t *testing.T) {
	g, keys := newConsoleRig(t)
	b := g.signIn(makeKey(t, keys, api.NewKey{Name: "a", Role: "operator"}).Secret)
	path := "/v1/sandboxes/main/ports/8080/"
	cookie := b.cookie.Name + "=" + b.cookie.Value
	g.send(g.careTCP(), g.url+path, "GET", "", "Cookie", cookie, "Sec-Fetch-Site", "none").code(404, "not-found") // there are no sandboxes
	g.send(g.careTCP(), g.url+path, "POST", "", "Cookie", cookie, "Sec-Fetch-Site", "none").code(401, "unauthorized")
	g.send(g.careTCP(), g.url+path, "GET", "", "Cookie", cookie, "Sec-Fetch-Site", "same-site").code(403, "denied")
}

// The owner, who came by a link, may allow for ever, as on the Unix socket.
func TestOperatorByLink(t *testing.T) {
	r := &http.Request{URL: &url.URL{}, Header: http.Header{}}
	for g, want := range map[*access.Grant]bool{access.Everything: true, access.Token: false, access.Nothing: false} {
		if got := operator(access.WithGrant(r.Context(), g)); got != want {
			t.Errorf("%s: %v", g.Name, got)
		}
	}
}

// With TLS the cookie is for encrypted requests alone, and for this host alone.
func TestCookieOverTLS(t *testing.T) {
	g, keys := newConsoleRig(t)
	secret := makeKey(t, keys, api.NewKey{Name: "a", Role: "viewer"}).Secret
	for host, want := range map[string]string{"gw.example": "__Host-corral", "gw.example:7777": "__Host-corral-7777"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/console/login", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Origin", "https://"+host)
		w := httptest.NewRecorder()
		g.server.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if w.Code != 200 || len(cookies) != 1 || cookies[0].Name != want || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
			t.Errorf("%s: %d, the cookies are %v", host, w.Code, cookies)
		}
	}
}

func TestOwnPage(t *testing.T) {
	for name, tt := range map[string]struct {
		site, origin string
		want         bool
	}{
		"a page of the console":        {"same-origin", "https://gw.example:7777", true},
		"the same, without an origin":  {"same-origin", "", true},
		"the user":                     {"none", "", true},
		"a browser that says nothing":  {"", "", true},
		"behind a proxy that encrypts": {"same-origin", "http://gw.example:7777", true},
		"another port":                 {"same-site", "https://gw.example:8080", false},
		"a port that lies of its site": {"same-origin", "https://gw.example:8080", false},
		"another port's picture":       {"same-site", "", false},
		"another site":                 {"cross-site", "https://evil.example", false},
		"a page without an origin":     {"cross-site", "null", false},
		"no origin alone":              {"", "null", false},
		"what is no origin":            {"", "://", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://gw.example:7777/v1/key", nil)
		for header, value := range map[string]string{"Sec-Fetch-Site": tt.site, "Origin": tt.origin} {
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		if got := ownPage(r); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
