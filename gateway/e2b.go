package gateway

import (
	"context"
	"encoding/hex"
	"net"
	"net/http"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/gateway/ports"
)

// ForE2B is a listener on which Serve serves clients of E2B (Config.E2B).
func ForE2B(l net.Listener) net.Listener { return e2bListener{l} }

type e2bListener struct{ net.Listener }

type onE2BKey struct{}

// baseContext is http.Server.BaseContext: it says which listener a request came by.
func baseContext(l net.Listener) context.Context {
	ctx := context.Background()
	if _, ok := l.(e2bListener); ok {
		ctx = context.WithValue(ctx, onE2BKey{}, true)
	}
	return ctx
}

func onE2B(r *http.Request) bool { return r.Context().Value(onE2BKey{}) != nil }

// foreign is what is another for the routes of clients of E2B.
type foreign struct {
	// grant returns the request as it is handled, and by what right it is made.
	grant func(r *http.Request) (*http.Request, *access.Grant, error)
}

// e2bPlanes are the routes for clients of E2B: the control plane, what sandboxes answer
// themselves, the same by a link that was signed, and the ports of sandboxes.
type e2bPlanes struct{ control, inside, signed, ports []route }

func (s *Server) e2bRoutes() (p e2bPlanes) {
	e := s.cfg.E2B
	p.control = s.e2bTable(e.Control(), s.e2bKey)
	p.inside = s.e2bTable(e.Inside(), func(r *http.Request) (*http.Request, *access.Grant, error) {
		id, _, _ := e.Target(r)
		return e.Sandbox(r, id, r.URL.Path == "/health")
	})
	p.signed = s.e2bTable(e.Inside(), func(r *http.Request) (*http.Request, *access.Grant, error) {
		id, _ := e.Signer(r)
		return e.Sandbox(r, id, false)
	})
	p.ports = []route{{pattern: "/", right: access.Run, host: corral.HostSandbox, pages: true, head: true, foreign: &foreign{e.Port}, handle: s.e2bPort}}
	return p
}

func (s *Server) e2bTable(routes []e2b.Route, grant func(*http.Request) (*http.Request, *access.Grant, error)) []route {
	table := make([]route, 0, len(routes))
	for _, rt := range routes {
		handle := handler(rt.Handle)
		if rt.Stays {
			handle = s.e2bStays(handle)
		}
		grant := grant
		if rt.Grant != nil {
			grant = rt.Grant
		}
		table = append(table, route{pattern: rt.Pattern, right: rt.Right, host: corral.HostSandbox, handle: withWholeBody(handle), foreign: &foreign{grant}})
	}
	return table
}

// e2bHandler serves clients of E2B.
func (s *Server) e2bHandler() http.Handler {
	e, planes := s.cfg.E2B, s.e2bRoutes()
	control, inside := s.e2bMux("e2b ", planes.control), s.e2bMux("envd ", planes.inside)
	signed, ports := s.e2bMux("envd ", planes.signed), s.e2bMux("e2b port ", planes.ports)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, port, named := e.Target(r)
		switch {
		case named && port == e2b.EnvdPort:
			inside.ServeHTTP(w, r)
			return
		case named:
			ports.ServeHTTP(w, r)
			return
		}
		if _, ok := e.Signer(r); ok {
			signed.ServeHTTP(w, r)
			return
		}
		control.ServeHTTP(w, r)
	})
}

// e2bMux serves routes. In metrics their names begin with the plane's.
func (s *Server) e2bMux(plane string, routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		h := rt
		h.pattern = plane + rt.pattern
		mux.Handle(rt.pattern, s.wrap(h))
	}
	return mux
}

// withWholeBody has a client cut off that sends nothing of a body that it announced.
func withWholeBody(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = wholeBody{newSlowBody(w, r), r.Body}
		}
		return h(w, r)
	}
}

// e2bStays counts a client that stays.
func (s *Server) e2bStays(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, done, err := s.follow(r)
		if err != nil {
			return err
		}
		defer done()
		return h(w, r.WithContext(ctx))
	}
}

// e2bPrefix begins a key in the form that E2B's clients check before they send it: with the
// key itself in hexadecimal behind it.
const e2bPrefix = "e2b_"

// e2bKey is what the key of a request to the control plane allows.
func (s *Server) e2bKey(r *http.Request) (*http.Request, *access.Grant, error) {
	given := r.Header.Get("X-API-KEY")
	ok := given != ""
	if !ok {
		given, ok = access.Bearer(r)
	}
	if text, is := strings.CutPrefix(given, e2bPrefix); is {
		if plain, err := hex.DecodeString(text); err == nil {
			given = string(plain)
		}
	}
	if !ok {
		return r, nil, corral.Errorf(api.ErrUnauthorized, "set E2B_API_KEY to a key of this gateway (corral keys create): see docs/how-to/e2b.md", "the request has no key")
	}
	g, err := s.grantOf(r, given)
	return r, g, err
}

// e2bPort passes a request on to a port of a sandbox.
func (s *Server) e2bPort(w http.ResponseWriter, r *http.Request) error {
	to := ports.Target{Path: r.URL.EscapedPath(), Origin: s.origin(r), Theirs: true}
	dial := func(ctx context.Context) (*portConn, error) {
		raw, port, host, err := s.cfg.E2B.Dial(ctx, r)
		if err != nil {
			return nil, err
		}
		to.Host = host
		return s.countPort(raw, port)
	}
	return s.withPort(w, r, dial, func(w http.ResponseWriter, r *http.Request, conn *portConn) error {
		to.Conn, to.Port = conn, conn.port
		for _, name := range e2b.OwnHeaders {
			r.Header.Del(name)
		}
		return s.ports.Serve(w, r, to)
	})
}
