package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/rs/cors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// authorize decides whether a request may be served. On a Unix socket the
// file's permissions have decided that already.
func (s *Server) authorize(rt route, r *http.Request) error {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return nil
	}
	if !s.knownHost(r.Host) {
		return corral.Errorf(corral.ErrDenied, "address the gateway as 127.0.0.1 or localhost, or add the name to its hosts",
			"the request is addressed to %q, which is no name of this gateway", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(s.cfg.Origins, origin) {
		return corral.Errorf(corral.ErrDenied, "add it to the gateway's origins if its pages may run commands here",
			"pages of %q may not call this gateway", origin)
	}
	if rt.open {
		return nil
	}
	given, ok := bearer(r)
	switch {
	case s.cfg.Token == "":
		return corral.Errorf(api.ErrUnauthorized, "use the Unix socket", "this gateway has no token, and takes no requests over TCP")
	case !ok:
		return corral.Errorf(api.ErrUnauthorized, "send the header 'Authorization: Bearer TOKEN' with the token in "+api.TokenFile+" in the gateway's state directory",
			"the request has no token")
	case !sameToken(given, s.cfg.Token):
		return corral.Errorf(api.ErrUnauthorized, "read the token from "+api.TokenFile+" in the gateway's state directory",
			"the token is not that of this gateway")
	}
	return nil
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
			api.HeaderAgent, api.HeaderSender, api.HeaderSession, api.HeaderStarted, api.HeaderModel, api.HeaderRequestID,
		},
		ExposedHeaders: []string{"Content-Range", "Location", "Retry-After", "Mcp-Session-Id", api.HeaderFile, api.HeaderRequestID},
		MaxAge:         600, // seconds
	}).Handler(next)
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// sameToken takes the same time for every wrong token, of whatever length.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
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
