package gateway

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/cors"
	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// authorize decides whether a request may be served, and returns by what right; also of a
// request that is refused, if its key is right. On a Unix socket the file's permissions
// have decided that already.
func (s *Server) authorize(rt route, r *http.Request) (*access.Grant, error) {
	if overUnix(r) {
		return access.Everything, nil
	}
	if err := s.addressed(r); err != nil {
		return nil, err
	}
	if rt.right == access.Public {
		return access.Nothing, nil
	}
	who := rt.who
	if who == nil {
		who = func(r *http.Request) (*access.Grant, error) { return s.grant(rt, r) }
	}
	g, err := who(r)
	if err != nil {
		return nil, err
	}
	return g, s.permit(rt, r, g)
}

// permit decides whether a request may be served by a right, and counts it.
func (s *Server) permit(rt route, r *http.Request, g *access.Grant) error {
	if rt.who != nil && g == access.Nothing { // then the route itself decides
		return nil
	}
	if err := g.Check(access.Need{Right: rt.right, Whole: rt.whole, Host: rt.host}, r.Method+" "+r.URL.Path); err != nil {
		return err
	}
	return g.Take(time.Now())
}

func overUnix(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// overLoopback reports whether a request came to an address of the loopback interface.
func overLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return isLoopback(local)
}

// isLoopback reports whether an address is only of this machine.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// addressed keeps pages from calling a gateway that a browser can reach.
func (s *Server) addressed(r *http.Request) error {
	if _, _, inside, _ := s.cfg.Domain.Match(r.Host); inside { // an origin of its own, without the API
		return nil
	}
	if overLoopback(r) && !s.knownHost(r.Host) { // from elsewhere a browser sends no key by itself
		return corral.Errorf(corral.ErrDenied, "address the gateway as 127.0.0.1 or localhost, or add the name to its hosts",
			"the request is addressed to %q, which is no name of this gateway", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.allowedOrigin(r, origin) {
		return corral.Errorf(corral.ErrDenied, "add it to the gateway's origins if its pages may run commands here",
			"pages of %q may not call this gateway", origin)
	}
	return nil
}

// grant is what the key of a request allows, or the key by which its browser signed in.
func (s *Server) grant(rt route, r *http.Request) (*access.Grant, error) {
	given, ok := access.Bearer(r)
	if !ok {
		if g, found, err := s.signedIn(rt, r); found {
			return g, err
		}
	}
	switch {
	case !ok && s.cfg.Token == "" && s.cfg.Keys == nil:
		return nil, corral.Errorf(api.ErrUnauthorized, "use the Unix socket", "this gateway has no token, and takes no requests over TCP")
	case !ok:
		return nil, corral.Errorf(api.ErrUnauthorized, "send the header 'Authorization: Bearer KEY' with a key (corral keys create), or the token in "+api.TokenFile+" in the gateway's state directory",
			"the request has neither a key nor a token")
	case rt.link && s.cfg.SignIns != nil && access.IsLink(given):
		ref, err := s.cfg.SignIns.Redeem(given)
		if err != nil {
			return nil, s.wrong.refuse(r.RemoteAddr, err)
		}
		g := s.cfg.Keys.Grant(ref)
		return g, g.Ended()
	}
	return s.grantOf(r, given)
}

// grantOf is what a key or the token allows, whichever way it was given.
func (s *Server) grantOf(r *http.Request, given string) (*access.Grant, error) {
	switch {
	case s.cfg.Token != "" && access.Same(given, s.cfg.Token):
		return s.byToken(r)
	case s.cfg.Keys != nil && access.IsKey(given):
		g, err := s.cfg.Keys.Check(given)
		if err != nil {
			return nil, s.wrong.refuse(r.RemoteAddr, err)
		}
		return g, nil
	}
	return nil, s.wrong.refuse(r.RemoteAddr, corral.Errorf(api.ErrUnauthorized, "send a key (corral keys create), or the token in "+api.TokenFile+" in the gateway's state directory",
		"what was sent is neither a key nor the token of this gateway"))
}

// byToken is what the gateway's token allows.
func (s *Server) byToken(r *http.Request) (*access.Grant, error) {
	if !overLoopback(r) {
		return nil, corral.Errorf(api.ErrUnauthorized, "use a key: corral keys create", "the gateway's token is for its own machine")
	}
	return access.Token, nil
}

// wrongKeys counts wrong keys by the address that they came from. Who sends too many is
// told to come back later. A right key from there is taken all the same.
type wrongKeys struct {
	mu   sync.Mutex
	from map[string]*rate.Limiter
}

// How many wrong keys an address may send at once, and a second, and how many
// addresses are remembered.
const (
	wrongBurst     = 100
	wrongRate      = 10
	wrongAddresses = 4096
)

func (k *wrongKeys) refuse(remote string, why error) error {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.from[host]
	if l == nil {
		if k.from == nil || len(k.from) >= wrongAddresses {
			k.from = map[string]*rate.Limiter{} // all begin anew: the bound is for memory
		}
		l = rate.NewLimiter(wrongRate, wrongBurst)
		k.from[host] = l
	}
	if l.Allow() {
		return why
	}
	return api.ComeBack(time.Second, "too many wrong keys came from %s", host)
}

// crossOrigin tells browsers what pages of the configured origins may send and
// read (Fetch Standard, "CORS protocol"). Whether a request is served is authorize's
// decision; a preflight asks for nothing.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	if len(s.cfg.Origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: s.cfg.Origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{
			"Authorization", "Content-Type", "Last-Event-ID", "Range", "Mcp-Protocol-Version", "Mcp-Session-Id",
			api.HeaderAgent, api.HeaderSender, api.HeaderSession, api.HeaderStarted, api.HeaderModel, api.HeaderRequestID, api.HeaderAttributes,
		},
		ExposedHeaders: []string{"Content-Range", "Location", "Retry-After", "Mcp-Session-Id", api.HeaderFile, api.HeaderRequestID},
		MaxAge:         600, // seconds
	}).Handler(next)
}

// knownHost guards against pages that make a name of their own resolve to a
// loopback address: the browser then sends that name.
func (s *Server) knownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(s.cfg.Hosts, func(h string) bool {
		return strings.EqualFold(h, host) || strings.EqualFold(h, hostport)
	})
}
