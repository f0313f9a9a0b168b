package ports

import (
	"cmp"
	"context"
	"errors"
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
)

// TrafficHeader has the token that opens the ports of a sandbox, as E2B's clients send it.
// It goes no further than the gateway, and leaves Authorization to the sandbox.
const TrafficHeader = "E2b-Traffic-Access-Token"

// A Target is where a request goes.
type Target struct {
	Conn   net.Conn // to the port, for this request alone
	Port   int
	Prefix string // of the route, escaped; the rest of the path is the sandbox's
	Path   string // escaped
	Origin string // of its own, which the whole of it is; empty: it has that of the API
	Host   string // that the program inside is addressed as; empty: localhost:PORT
	Theirs bool   // Authorization is for the sandbox, which may have keys of its own
}

type targetKey struct{}

// proxied is a request on its way to its target.
type proxied struct {
	Target
	err error // why it was not answered
}

func proxiedOf(ctx context.Context) *proxied { return ctx.Value(targetKey{}).(*proxied) }

// A Proxy passes on requests to ports, and the answers. There is a connection for each
// request: one that is kept could be that of a container, or of an agent's sandbox, that
// is gone by then.
type Proxy struct{ reverse *httputil.ReverseProxy }

// NewProxy makes a Proxy.
func NewProxy(log *slog.Logger) *Proxy {
	return &Proxy{&httputil.ReverseProxy{
		FlushInterval:  -1, // at once
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Transport:      newTransport(),
		Rewrite:        rewrite,
		ModifyResponse: modify,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			p := proxiedOf(r.Context())
			if p.err = context.Cause(r.Context()); p.err == nil {
				p.err = corral.Errorf(corral.ErrLost, "look at the output of what listens there", "port %d did not answer by HTTP: %w", p.Port, err)
			}
		},
	}}
}

// Serve answers a request with what listens at its target. With an error nothing was
// answered, or the answer broke off.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, to Target) (err error) {
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
			err = corral.Errorf(corral.ErrLost, "", "the answer of port %d broke off", to.Port)
		}
	}()
	on := &proxied{Target: to}
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, on)))
	return on.err
}

// SplitPath splits the path of a request to /v1/sandboxes/NAME/ports/PORT or
// /v1/nodes/NAME/ports/PORT after the port.
func SplitPath(escaped string) (prefix, path string) {
	const slashes = 6 // the sandbox's path begins with the last
	at := 0
	for range slashes - 1 {
		at += 1 + strings.IndexByte(escaped[at+1:], '/')
	}
	return escaped[:at], escaped[at:]
}

// transport speaks HTTP/2 with what can nothing else, which is gRPC, and HTTP/1.1 with
// the rest, which always can.
type transport struct{ *http.Transport }

func newTransport() transport {
	return transport{&http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20, ExpectContinueTimeout: time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return proxiedOf(ctx).Conn, nil },
	}}
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return t.Transport.RoundTrip(r)
	}
	// Requests by HTTP/2 would share connections to an address, and localhost:PORT is that
	// of all sandboxes.
	one := t.Clone()
	one.Protocols = new(http.Protocols)
	one.Protocols.SetUnencryptedHTTP2(true)
	return one.RoundTrip(r)
}

// rewrite makes the request that the sandbox gets. Programs inside check that they are
// addressed by a name of their own, so that is localhost.
func rewrite(r *httputil.ProxyRequest) {
	p := proxiedOf(r.In.Context())
	r.SetXForwarded()
	if p.Prefix != "" {
		r.Out.Header.Set("X-Forwarded-Prefix", p.Prefix)
	}
	local := "localhost:" + strconv.Itoa(p.Port)
	host := cmp.Or(p.Host, local)
	u := &url.URL{Scheme: "http", Host: host, RawPath: p.Path, RawQuery: r.In.URL.RawQuery}
	u.Path, _ = url.PathUnescape(p.Path) // it comes from a URL that was parsed
	r.Out.URL, r.Out.Host = u, host
	if !p.Theirs { // the key of the gateway is nothing for the sandbox
		r.Out.Header.Del("Authorization")
	}
	r.Out.Header.Del(TrafficHeader)
	if p.Origin != "" && host == local && r.In.Header.Get("Origin") == p.Origin {
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
			if name, _, _ := strings.Cut(part, "="); !OwnCookie(strings.TrimSpace(name)) {
				theirs = append(theirs, part)
			}
		}
		if len(theirs) > 0 {
			r.Out.Header.Add("Cookie", strings.TrimSpace(strings.Join(theirs, ";")))
		}
	}
}

// OwnCookie reports whether a cookie is the gateway's: a key may be in it.
func OwnCookie(name string) bool {
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

// modify makes the answer that the client gets.
//
// What a sandbox says is not to be trusted, and on this route it has the origin of the
// API: in a browser a script of it could call the API with what the browser knows of it.
// With the policy sandbox a browser takes a page for one of no origin, and runs none of
// its scripts; with nosniff it takes nothing for a page, or for a script, that does not
// say so. The route is for programs, which do not mind.
func modify(resp *http.Response) error {
	p := proxiedOf(resp.Request.Context())
	for _, name := range notTheirs {
		if p.Origin == "" || !strings.HasPrefix(name, "Access-Control-") {
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
		if name, _, _ := strings.Cut(line, "="); !OwnCookie(strings.TrimSpace(name)) {
			resp.Header.Add("Set-Cookie", p.cookie(line))
		}
	}
	if p.Origin == "" {
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
	if p.Origin == "" {
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
		own = own || u.Scheme == "http" && u.Host == name+":"+strconv.Itoa(p.Port)
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
	return p.Prefix + rest
}
