package gateway

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
	"github.com/corral-exec/corral/internal/tunnel"
)

// FuzzPort: whatever a client asks for below the prefix, the program gets just the rest of
// it, at its own port, and nothing of the gateway's; and whatever the program answers, it
// sets no cookie of the gateway's, and its redirections to itself stay below the prefix.
func FuzzPort(f *testing.F) {
	f.Add("a%2Fb/c%20d?x=1;y", "k=v; __Host-corral-key=x", "/login?next=%2F#top", " Corral-key =x; Path=/", false)
	f.Add("", "corral=1;;=", "http://localhost:80/..//x", "a=b; Domain=example.com", true)
	f.Add("//h/%2e%2e/%", "a=\"b;c\"", "//localhost:80", "__Secure-CORRAL=x", false)
	f.Add("?", "", "http://localhost:80@evil.test/", "=", true)
	f.Fuzz(func(t *testing.T, rest, cookies, location, set string, own bool) {
		const prefix = "/v1/sandboxes/box/ports/80"
		u, err := url.ParseRequestURI(prefix + "/" + rest)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.URL = u
		r.Header["Cookie"] = []string{cookies}
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set(api.HeaderAgent, "me")
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		p := &proxied{conn: &portConn{Conn: noHalf{near}, port: 80}}
		p.prefix, p.path = splitPortPath(u.EscapedPath())
		if own {
			p.origin, p.prefix, p.path = "http://80-box.boxes.test", "", u.EscapedPath()
		}
		r = r.WithContext(context.WithValue(r.Context(), proxiedKey{}, p))
		out := &httputil.ProxyRequest{In: r, Out: r.Clone(r.Context())}
		toPort(out)
		if got := out.Out.URL; got.Scheme != "http" || got.Host != "localhost:80" || got.User != nil || p.prefix+got.EscapedPath() != u.EscapedPath() || got.RawQuery != u.RawQuery {
			t.Errorf("%s became %+v", u, got)
		}
		for name, values := range out.Out.Header {
			if name == "Authorization" || strings.HasPrefix(name, "Corral-") || strings.Contains(strings.Join(values, ""), testToken) {
				t.Errorf("the program gets %s: %q", name, values)
			}
		}
		for _, c := range out.Out.Cookies() {
			if ownCookie(c.Name) {
				t.Errorf("of %q the program gets %s", cookies, c.Name)
			}
		}
		resp := &http.Response{Request: out.Out, Header: http.Header{"Location": {location}, "Set-Cookie": {set}}}
		if err := fromPort(resp); err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Cookies() {
			if ownCookie(c.Name) || own && c.Domain != "" {
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

// noHalf is a connection of a test that is not half-closed.
type noHalf struct{ net.Conn }

func (noHalf) CloseWrite() error { return nil }

var _ tunnel.Conn = noHalf{}

// FuzzAuthorization: nothing but the token itself is a key.
func FuzzAuthorization(f *testing.F) {
	g := newRig(f, nil)
	for _, s := range []string{"", "Bearer", "Bearer ", "bearer " + testToken, "Bearer  " + testToken + " ", "Basic " + testToken, "Bearer " + testToken + "x", "Bearer corral_x_y.00000000", testToken} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/sessions", nil)
		r.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		g.server.ServeHTTP(w, r)
		fields := strings.Fields(header)
		right := len(fields) == 2 && strings.EqualFold(fields[0], "Bearer") && fields[1] == testToken
		if w.Code == http.StatusOK && !right || w.Code != http.StatusOK && w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
			t.Errorf("%q: %d", header, w.Code)
		}
		if strings.Contains(w.Body.String(), testToken) {
			t.Errorf("%q: the answer has the token: %s", header, w.Body)
		}
	})
}
