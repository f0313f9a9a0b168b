package gateway

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/e2b"
)

type proxiedKey struct{}

// proxied is a request on its way to a port.
type proxied struct {
	conn   *portConn
	prefix string // of the route, escaped; the rest of the path is the sandbox's
	path   string // escaped
	origin string // of its own, which the whole of it is; empty: it has that of the API
	host   string // that the program inside is addressed as; empty: localhost:PORT
	theirs bool   // Authorization is for the sandbox, which may have keys of its own
	err    error  // why it was not answered
}

func proxiedOf(ctx context.Context) *proxied { return ctx.Value(proxiedKey{}).(*proxied) }

// proxyPort passes on a request by HTTP, and the answer.
func (s *Server) proxyPort(w http.ResponseWriter, r *http.Request, conn *portConn) error {
	p := &proxied{conn: conn}
	p.prefix, p.path = splitPortPath(r.URL.EscapedPath())
	return s.proxy(w, r, p)
}

func (s *Server) proxy(w http.ResponseWriter, r *http.Request, p *proxied) (err error) {
	if r.Body != nil && r.Body != http.NoBody {
		// Else nothing was answered before all of the body has come.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	defer func() {
		if cut := recover(); cut != nil {
			if cut != http.ErrAbortHandler { //nolint:errorlint // it is compared like that by net/http
				panic(cut)
			}
			err = corral.Errorf(corral.ErrLost, "", "the answer of port %d broke off", p.conn.port)
		}
	}()
	s.ports.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proxiedKey{}, p)))
	return p.err
}

// splitPortPath splits the path of a request after /v1/sandboxes/NAME/ports/PORT.
func splitPortPath(escaped string) (prefix, path string) {
	const slashes = 6 // the sandbox's path begins with the last
	at := 0
	for range slashes - 1 {
		at += 1 + strings.IndexByte(escaped[at+1:], '/')
	}
	return escaped[:at], escaped[at:]
}

// portsProxy is what proxyPort uses. There is a connection for each request: one that is
// kept could be that of a container, or of an agent's sandbox, that is gone by then.
func (s *Server) portsProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		FlushInterval:  -1, // at once
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Transport:      newPortTransport(),
		Rewrite:        toPort,
		ModifyResponse: fromPort,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			p := proxiedOf(r.Context())
			if p.err = context.Cause(r.Context()); p.err == nil {
				p.err = corral.Errorf(corral.ErrLost, "look at the output of what listens there", "port %d did not answer by HTTP: %w", p.conn.port, err)
			}
		},
	}
}

// portTransport speaks HTTP/2 with what can nothing else, which is gRPC, and HTTP/1.1 with
// the rest, which always can.
type portTransport struct{ one, two *http.Transport }

func newPortTransport() portTransport {
	t := portTransport{one: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20, ExpectContinueTimeout: time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return proxiedOf(ctx).conn, nil },
	}}
	t.two = t.one.Clone()
	t.two.Protocols = new(http.Protocols)
	t.two.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func (t portTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return t.two.RoundTrip(r)
	}
	return t.one.RoundTrip(r)
}

// toPort makes the request that the sandbox gets. Programs inside check that they are
// addressed by a name of their own, so that is localhost.
func toPort(r *httputil.ProxyRequest) {
	p := proxiedOf(r.In.Context())
	r.SetXForwarded()
	if p.prefix != "" {
		r.Out.Header.Set("X-Forwarded-Prefix", p.prefix)
	}
	local := "localhost:" + strconv.Itoa(p.conn.port)
	host := cmp.Or(p.host, local)
	u := &url.URL{Scheme: "http", Host: host, RawPath: p.path, RawQuery: r.In.URL.RawQuery}
	u.Path, _ = url.PathUnescape(p.path) // it comes from a URL that was parsed
	r.Out.URL, r.Out.Host = u, host
	if !p.theirs { // the key of the gateway is nothing for the sandbox
		r.Out.Header.Del("Authorization")
	}
	r.Out.Header.Del(e2b.TrafficHeader)
	if p.origin != "" && host == local && r.In.Header.Get("Origin") == p.origin {
		r.Out.Header.Set("Origin", "http://"+host)
	}
	for name := range r.Out.Header {
		if strings.HasPrefix(name, "Corral-") {
			r.Out.Header.Del(name)
		}
	}
	lines := r.Out.Header["Cookie"]
	r.Out.Header.Del("Cookie")
	for _, line := range lines {
		var theirs []string
		for part := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(part, "="); !ownCookie(strings.TrimSpace(name)) {
				theirs = append(theirs, part)
			}
		}
		if len(theirs) > 0 {
			r.Out.Header.Add("Cookie", strings.TrimSpace(strings.Join(theirs, ";")))
		}
	}
}

// ownCookie reports whether a cookie is the gateway's: a key may be in it.
func ownCookie(name string) bool {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "__host-"), "__secure-")
	return strings.HasPrefix(name, "corral")
}

// notTheirs are headers by which an answer acts on all of an origin, or on the gateway's
// own answer. The origin is the gateway's.
var notTheirs = []string{
	"Alt-Svc", "Clear-Site-Data", "Nel", "Report-To", "Reporting-Endpoints", "Service-Worker-Allowed", "Strict-Transport-Security",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers", api.HeaderRequestID,
}

// fromPort makes the answer that the client gets.
//
// What a sandbox says is not to be trusted, and on this route it has the origin of the
// API: in a browser a script of it could call the API with what the browser knows of it.
// With the policy sandbox a browser takes a page for one of no origin, and runs none of
// its scripts; with nosniff it takes nothing for a page, or for a script, that does not
// say so. The route is for programs, which do not mind.
func fromPort(resp *http.Response) error {
	p := proxiedOf(resp.Request.Context())
	for _, name := range notTheirs {
		if p.origin == "" || !strings.HasPrefix(name, "Access-Control-") {
			resp.Header.Del(name)
		}
	}
	for name := range resp.Header {
		if strings.HasPrefix(name, "Corral-") {
			resp.Header.Del(name)
		}
	}
	set := resp.Header["Set-Cookie"]
	resp.Header.Del("Set-Cookie")
	for _, line := range set {
		if name, _, _ := strings.Cut(line, "="); !ownCookie(strings.TrimSpace(name)) {
			resp.Header.Add("Set-Cookie", p.cookie(line))
		}
	}
	if p.origin == "" {
		resp.Header.Add("Content-Security-Policy", "sandbox")
		resp.Header.Set("X-Content-Type-Options", "nosniff")
	}
	if to := resp.Header.Get("Location"); to != "" {
		resp.Header.Set("Location", p.location(to))
	}
	return nil
}

// cookie is a cookie that the sandbox sets. One for a whole domain would be sent to other
// sandboxes too: it is for this origin alone.
func (p *proxied) cookie(line string) string {
	if p.origin == "" {
		return line
	}
	parts := strings.Split(line, ";")
	parts = slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		return strings.EqualFold(strings.TrimSpace(name), "domain")
	})
	return strings.Join(parts, ";")
}

// location is where a redirection leads for the client. What leads to the port itself
// goes by the route.
func (p *proxied) location(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return to
	}
	own := u.Host == "" && strings.HasPrefix(u.Path, "/")
	for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
		own = own || u.Scheme == "http" && u.Host == name+":"+strconv.Itoa(p.conn.port)
	}
	if !own {
		return to
	}
	rest := u.EscapedPath()
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if u.RawQuery != "" {
		rest += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		rest += "#" + u.EscapedFragment()
	}
	return p.prefix + rest
}

// writePage answers an error to those who ask for pages.
func writePage(w http.ResponseWriter, status int, e api.ErrorBody) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	return errorPage.Execute(w, map[string]any{"Status": status, "Text": http.StatusText(status), "Error": e})
}

var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Status}} {{.Text}}</title>
<h1>{{.Status}} {{.Text}}</h1>
<p>{{.Error.Message}}</p>{{with .Error.Hint}}
<p>What to do: {{.}}</p>{{end}}
</html>
`))
