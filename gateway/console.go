package gateway

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/console"
	"github.com/corral-exec/corral/gateway/access"
)

func (s *Server) consoleRoutes() []route {
	pages := console.Handler("/console/")
	return []route{
		{pattern: "GET /{$}", right: access.Public, handle: toConsole},
		{pattern: "GET /console", right: access.Public, handle: toConsole},
		{pattern: "GET /console/{path...}", right: access.Public, handle: func(w http.ResponseWriter, r *http.Request) error {
			pages.ServeHTTP(w, r)
			return nil
		}},
		{pattern: "POST /console/login", right: access.Read, link: true, handle: s.signIns(s.signIn)},
		{pattern: "DELETE /console/login", right: access.Read, handle: s.signIns(s.signOut)},
		{pattern: "POST /v1/console/links", right: access.Read, handle: s.signIns(s.newLink)},
	}
}

// toConsole is for people, who type an address without a path.
func toConsole(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/" && !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return nothingAt(r)
	}
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
	return nil
}

// signIns is a handler of a gateway that lets browsers sign in.
func (s *Server) signIns(h handler) handler {
	return having(s.cfg.SignIns != nil, corral.Errorf(corral.ErrNotFound, "", "nobody can sign in to the console of this gateway"), h)
}

// signIn gives the browser of a caller with a key a cookie, by which the console's pages
// may do what the key may.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	if _, ok := access.Bearer(r); !ok {
		return corral.Errorf(corral.ErrInvalid, "send a key in the header Authorization", "a sign-in needs a key, and not a cookie")
	}
	g := access.From(r.Context())
	in, err := s.cfg.SignIns.Begin(s.signInRef(g))
	if err != nil {
		return err
	}
	s.log.Info("a browser signed in to the console", "key", g.Name, "from", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: in.Cookie, Path: "/", Expires: in.Expires,
		Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusOK, api.SignedIn{Token: in.Token, ExpiresAt: in.Expires})
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	name := cookieName(r)
	if c, err := r.Cookie(name); err == nil {
		if err := s.cfg.SignIns.End(c.Value); err != nil {
			return err
		}
	}
	http.SetCookie(w, &http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// newLink makes a link by which a browser is signed in, once. It is for the gateway's
// own machine, whose owner has no key to type.
func (s *Server) newLink(w http.ResponseWriter, r *http.Request) error {
	if !overUnix(r) {
		return corral.Errorf(corral.ErrDenied, "use corral console on the gateway's machine, or sign in by a key", "links to the console are made by the Unix socket alone")
	}
	if len(s.pages) == 0 {
		return corral.Errorf(corral.ErrUnavailable, "start it with --listen 127.0.0.1:7777, or set gateway.listen", "the gateway listens on no TCP address that a browser could open")
	}
	secret, expires, err := s.cfg.SignIns.Link(s.signInRef(access.From(r.Context())))
	if err != nil {
		return err
	}
	s.log.Info("a link to the console was made", "expires", expires)
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusCreated, api.ConsoleLink{URL: s.pages[0] + "/console/#link=" + secret, ExpiresAt: expires.UTC()})
}

// pageURL is where a browser of this machine finds the console of a listener; empty: nowhere.
func (s *Server) pageURL(l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if _, e2b := l.(e2bListener); e2b || !ok {
		return ""
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if s.cfg.TLS != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// cookieName is the name of the console's cookie. A browser has the cookies of all ports
// of a host in one place, so the port is in it.
func cookieName(r *http.Request) string {
	name := "corral"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if r.TLS != nil {
		name = "__Host-" + name
	}
	return name
}

// signedIn is what a request may do by the cookie of the console, if it has one.
//
// Browsers send a cookie with requests of other pages as well: of other ports of the same
// host, for one, which may be those of sandboxes. So the request has to be from a page
// of this origin, and show the token that only those can read: in a header, so that no
// WebSocket is opened by a cookie. A page of a port is opened by a link, without it.
func (s *Server) signedIn(rt route, r *http.Request) (_ *access.Grant, found bool, err error) {
	if s.cfg.SignIns == nil {
		return nil, false, nil
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil, false, nil //nolint:nilerr // there is none
	}
	if !ownPage(r) {
		return nil, true, corral.Errorf(corral.ErrDenied, "use a key in the header Authorization", "the console's cookie is for the console's pages alone")
	}
	ref, err := s.cfg.SignIns.Check(cookie.Value, r.Header.Get(api.HeaderConsole), !rt.pages || r.Method != http.MethodGet)
	if err != nil {
		return nil, true, s.wrong.refuse(r.RemoteAddr, err)
	}
	g, err := s.signInGrant(r, ref)
	return g, true, err
}

// signInKey is of a context's value: one that ends when the browser signs out.
type signInKey struct{}

// withSignIn notes the sign-in that a request was let in by, if it was by one.
func (s *Server) withSignIn(ctx context.Context, r *http.Request) context.Context {
	if _, byKey := access.Bearer(r); byKey || overUnix(r) || s.cfg.SignIns == nil {
		return ctx
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, signInKey{}, s.cfg.SignIns.Alive(c.Value))
}

// whileSignedIn is ctx until the browser that a request is from signs out.
func whileSignedIn(ctx context.Context) (context.Context, context.CancelFunc) {
	alive, ok := ctx.Value(signInKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(alive, func() { cancel(errSignedOut) })
	return ctx, func() {
		detach()
		cancel(nil)
	}
}

var errSignedOut = corral.Errorf(api.ErrUnauthorized, "sign in again", "the browser was signed out")

// ofOwner is a handler of requests to a port of a sandbox. A link of the console made
// them, which can name no agent: then they are those of the sandbox's owner.
func (s *Server) ofOwner(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		_, byKey := access.Bearer(r)
		if byKey || overUnix(r) || s.cfg.Sandboxes == nil || r.Header.Get(api.HeaderAgent) != "" {
			return h(w, r)
		}
		if box, err := s.cfg.Sandboxes.Get(r.Context(), r.PathValue("name")); err == nil && box.Agent != "" && access.From(r.Context()).Sees(box.Agent) {
			r.Header.Set(api.HeaderAgent, box.Agent)
		}
		return h(w, r)
	}
}

// ownPage reports whether a browser says that a request is from a page of the origin that
// it goes to, or from the user.
func ownPage(r *http.Request) bool {
	if !ownSite(r) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin) // its scheme is another one behind a proxy that encrypts
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// ownSite reports whether a browser says no other than that a request is from a page of
// the origin that it goes to, or from the user.
func ownSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}

// refOfToken begins the Ref of a sign-in by the gateway's token, which ends with it.
const refOfToken = "token."

// signInRef is what a sign-in is kept for.
func (s *Server) signInRef(g *access.Grant) string {
	if g == access.Token {
		return refOfToken + access.Fingerprint(s.cfg.Token)
	}
	return g.Ref()
}

// signInGrant is what a sign-in may do now.
func (s *Server) signInGrant(r *http.Request, ref string) (*access.Grant, error) {
	if of, ok := strings.CutPrefix(ref, refOfToken); ok {
		if of != access.Fingerprint(s.cfg.Token) {
			return nil, corral.Errorf(api.ErrUnauthorized, "sign in again", "the gateway has another token by now")
		}
		return s.byToken(r)
	}
	g := s.cfg.Keys.Grant(ref)
	return g, g.Ended()
}

// allowedOrigin reports whether pages of an origin may call the gateway. Its own are the
// console: those of sandboxes' ports have no origin.
func (s *Server) allowedOrigin(r *http.Request, origin string) bool {
	return origin == self(r) || slices.Contains(s.cfg.Origins, origin)
}
