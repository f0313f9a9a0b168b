package gateway

import (
	"cmp"
	"context"
	_ "embed"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/session"
)

// openPath is of the gateway on the host of a port: there a browser shows a token once,
// and is known by a cookie from then on.
const openPath = "/.corral/"

// byHost serves what is addressed to the host of a port by that port, and never by the API.
func (s *Server) byHost(next http.Handler) http.Handler {
	if s.cfg.Domain.IsZero() {
		return next
	}
	port := s.wrap(route{pattern: "PORT-SANDBOX.DOMAIN", right: access.Run, host: corral.HostSandbox, who: s.portGrant, handle: s.portHost, head: true, pages: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, _, inside, _ := s.cfg.Domain.Match(r.Host); {
		case inside:
			port.ServeHTTP(w, r)
		case r.ProtoMajor > 1: // by a connection that was made for the host of a port
			http.Error(w, "this connection is for hosts of ports", http.StatusMisdirectedRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// portHost answers what is addressed to the host of a port.
func (s *Server) portHost(w http.ResponseWriter, r *http.Request) error {
	port, label, _, ok := s.cfg.Domain.Match(r.Host)
	if !ok {
		return s.noPortHost(r)
	}
	if r.URL.Path == openPath {
		return s.openPort(w, r, label)
	}
	box, err := s.labelled(r.Context(), label)
	if err != nil {
		return err
	}
	g := access.From(r.Context())
	known := g != access.Nothing
	switch {
	case box != nil && known && g.Sees(box.Agent), box != nil && !known && (s.public(box.Agent) || s.hasToken(r, label)):
	case known:
		return corral.Errorf(corral.ErrNotFound, "see which sandboxes there are: corral sandbox ls", "no sandbox is behind %s", r.Host)
	default: // the error does not tell which sandboxes exist
		return corral.Errorf(api.ErrUnauthorized, "send a key or the sandbox's token; in a browser open what 'corral sandbox url --token' prints",
			"the request has no key for %s", r.Host)
	}
	key, _ := access.Bearer(r)
	theirs := !known && !s.cfg.PortSecret.Opens(label, key)
	agent := cmp.Or(box.Agent, session.DefaultAgent)
	return s.withPort(w, r, s.dialPort(agent, box.Name, port), func(w http.ResponseWriter, r *http.Request, conn *portConn) error {
		return s.ports.Serve(w, r, ports.Target{Conn: conn, Port: port, Path: r.URL.EscapedPath(), Origin: s.origin(r), Theirs: theirs})
	})
}

func (s *Server) noPortHost(r *http.Request) error {
	return corral.Errorf(corral.ErrNotFound, "the host of a port is PORT-SANDBOX."+s.cfg.Domain.Name(), "%.80q is not the host of a port", r.Host)
}

// origin is that of the page that a request is for, as browsers write it.
func (s *Server) origin(r *http.Request) string {
	scheme := "http://"
	if s.cfg.Domain.Secure() {
		scheme = "https://"
	}
	return scheme + r.Host
}

// portGrant is by what right a request to the host of a port comes. Nothing is not
// refused yet: the port may be for everybody, or the sandbox's token be with the request.
func (s *Server) portGrant(r *http.Request) (*access.Grant, error) {
	_, label, _, ok := s.cfg.Domain.Match(r.Host)
	if !ok {
		return access.Nothing, s.noPortHost(r)
	}
	if key, _ := access.Bearer(r); access.IsKey(key) || s.cfg.Token != "" && access.Same(key, s.cfg.Token) {
		return s.grantOf(r, key)
	}
	if token := r.Header.Get(ports.TrafficHeader); token != "" && !s.cfg.PortSecret.Opens(label, token) {
		return access.Nothing, s.wrong.refuse(r.RemoteAddr, corral.Errorf(corral.ErrDenied, "use the one that 'corral sandbox url --json' prints", "the token is not that of this sandbox"))
	}
	return access.Nothing, nil
}

// hasToken reports whether a request shows the token of a sandbox.
func (s *Server) hasToken(r *http.Request, label string) bool {
	if key, _ := access.Bearer(r); s.cfg.PortSecret.Opens(label, key) || s.cfg.PortSecret.Opens(label, r.Header.Get(ports.TrafficHeader)) {
		return true
	}
	c, err := r.Cookie(s.portCookie())
	return err == nil && s.cfg.PortSecret.Opens(label, c.Value) && s.fromHere(r)
}

// fromHere reports whether a browser sends a request for a page of the same origin, or
// because a person goes there. Pages of other sandboxes are of the same site, and the
// cookie comes with what they ask for too.
func (s *Server) fromHere(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != s.origin(r) {
		return false
	}
	return ownSite(r) || r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.Method == http.MethodGet
}

// portCookie is the name of the cookie that has a sandbox's token. Browsers take
// "__Host-" for this host alone, and only with TLS.
func (s *Server) portCookie() string {
	if s.cfg.Domain.Secure() {
		return "__Host-corral-port"
	}
	return "corral-port"
}

//go:embed openport.html
var openPage []byte

// openCSP is the policy of openPage, whose script it names by its sum (see TestOpenPage).
const openCSP = "default-src 'none'; script-src 'sha256-JknD/n1qkt2uNWfjxcTWY96dJU7bTkHbz2CjMxT49PY='; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// openPort takes a sandbox's token from a browser, and gives it a cookie. The token comes
// after the # of the address, which a browser does not send: a script reads and posts it.
func (s *Server) openPort(w http.ResponseWriter, r *http.Request, label string) error {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", openCSP)
		_, err := w.Write(openPage)
		return err
	}
	token := r.Header.Get(ports.TrafficHeader)
	if token == "" || !s.fromHere(r) { // a wrong one was refused already
		return corral.Errorf(api.ErrUnauthorized, "open what 'corral sandbox url --token' prints", "the request has no token")
	}
	http.SetCookie(w, &http.Cookie{Name: s.portCookie(), Value: token, Path: "/", HttpOnly: true, Secure: s.cfg.Domain.Secure(), SameSite: http.SameSiteLaxMode})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) public(agent string) bool {
	return s.cfg.PublicPorts != nil && s.cfg.PublicPorts(agent)
}

// labels are the sandboxes that host names of ports stand for. What is found once is known
// from then on: whether it is still there is seen when a port of it is dialled.
type labels struct {
	mu    sync.Mutex
	known map[string]*api.Sandbox

	listing sync.Mutex // held while the sandboxes are listed; known ones do not wait for it
	looked  time.Time
}

func (l *labels) get(label string) *api.Sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[label]
}

// lookAtMost is how often sandboxes are listed for host names that stand for none.
const lookAtMost = time.Second

// labelled is the sandbox with a label, nil if there is none.
func (s *Server) labelled(ctx context.Context, label string) (*api.Sandbox, error) {
	l := &s.labels
	if box := l.get(label); box != nil || s.cfg.Sandboxes == nil {
		return box, nil
	}
	l.listing.Lock()
	defer l.listing.Unlock()
	if box := l.get(label); box != nil || time.Since(l.looked) < lookAtMost {
		return box, nil
	}
	list, err := s.cfg.Sandboxes.List(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*api.Sandbox{}
	for i, box := range list {
		known[ports.Label(box.Name)] = &list[i]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked, l.known = time.Now(), known
	return known[label], nil
}

// sandboxAddress says by which host name a port of a sandbox is reached, and its token.
func (s *Server) sandboxAddress(w http.ResponseWriter, r *http.Request) error {
	port, err := ports.Number(r.URL.Query().Get("port"))
	if err != nil {
		return err
	}
	if s.cfg.Domain.IsZero() {
		return corral.Errorf(corral.ErrNotFound, "set gateway.domain, or use corral sandbox forward", "this gateway has no domain for ports")
	}
	box, err := s.cfg.Sandboxes.Get(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	label := ports.Label(box.Name)
	a := api.SandboxAddress{URL: s.cfg.Domain.URL(port, label), Token: s.cfg.PortSecret.Token(label), Public: s.public(box.Agent)}
	u, err := url.Parse(a.URL)
	if err != nil {
		return err
	}
	u.Path, u.Fragment = openPath, a.Token
	a.Open = strings.TrimSpace(u.String())
	return writeJSON(w, http.StatusOK, a)
}
