package ports

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
)

// FuzzProxy: whatever a client asks for below the prefix, the program gets just the rest of
// it, at its own port, and nothing of the gateway's; and whatever the program answers, it
// sets no cookie of the gateway's, and its redirections to itself stay below the prefix.
func FuzzProxy(f *testing.F) {
	f.Add("a%2Fb/c%20d?x=1;y", "k=v; __Host-corral-key=x", "/login?next=%2F#top", " Corral-key =x; Path=/", false)
	f.Add("", "corral=1;;=", "http://localhost:80/..//x", "a=b; Domain=example.com", true)
	f.Add("//h/%2e%2e/%", "a=\"b;c\"", "//localhost:80", "__Secure-CORRAL=x", false)
	f.Add("?", "", "http://localhost:80@evil.test/", "=", true)
	f.Fuzz(func(t *testing.T, rest, cookies, location, set string, own bool) {
		const prefix, token = "/v1/sandboxes/box/ports/80", "a-token-of-the-gateway"
		u, err := url.ParseRequestURI(prefix + "/" + rest)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = u
		r.Header["Cookie"] = []string{cookies}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set(api.HeaderAgent, "me")
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		p := &proxied{Target: Target{Conn: near, Port: 80}}
		p.Prefix, p.Path = SplitPath(u.EscapedPath())
		if own {
			p.Origin, p.Prefix, p.Path = "http://80-box.boxes.test", "", u.EscapedPath()
		}
		r = r.WithContext(context.WithValue(r.Context(), targetKey{}, p))
		out := &httputil.ProxyRequest{In: r, Out: r.Clone(r.Context())}
		rewrite(out)
		if got := out.Out.URL; got.Scheme != "http" || got.Host != "localhost:80" || got.User != nil || p.Prefix+got.EscapedPath() != u.EscapedPath() || got.RawQuery != u.RawQuery {
			t.Errorf("%s became %+v", u, got)
		}
		for name, values := range out.Out.Header {
			if name == "Authorization" || strings.HasPrefix(name, "Corral-") || strings.Contains(strings.Join(values, ""), token) {
				t.Errorf("the program gets %s: %q", name, values)
			}
		}
		for _, c := range out.Out.Cookies() {
			if OwnCookie(c.Name) {
				t.Errorf("of %q the program gets %s", cookies, c.Name)
			}
		}
		resp := &http.Response{Request: out.Out, Header: http.Header{"Location": {location}, "Set-Cookie": {set}}}
		if err := modify(resp); err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Cookies() {
			if OwnCookie(c.Name) || own && c.Domain != "" {
				t.Errorf("of %q the client gets %+v", set, c)
			}
		}
		to := resp.Header.Get("Location")
		base, err := u.Parse(to)
		if err != nil || own {
			return
		}
		if resp.Header.Get("Content-Security-Policy") != "sandbox" {
			t.Error("the answer is a page of the API's origin")
		}
		if base.Host == "" && strings.HasPrefix(location, "/") && !strings.HasPrefix(to, prefix+"/") {
			t.Errorf("%q leads to %q", location, to)
		}
	})
}

func TestLocation(t *testing.T) {
	p := &proxied{Target: Target{Port: 80, Prefix: "/p"}}
	for to, want := range map[string]string{
		"/a": "/p/a", "a": "a", "?x": "?x", "//other/a": "//other/a", "http://other/": "http://other/", "http://localhost:81/": "http://localhost:81/",
		"http://localhost:80": "/p/", "http://127.0.0.1:80/a?b": "/p/a?b", "https://localhost:80/": "https://localhost:80/", "%": "%",
	} {
		if got := p.location(to); got != want {
			t.Errorf("%s leads to %s, want %s", to, got, want)
		}
	}
}
