package e2b

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/ports"
)

// OwnHeaders are headers of clients that are not for what listens in a sandbox.
var OwnHeaders = []string{ports.TrafficHeader, "E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token", "X-Api-Key"}

// Port is the sandbox of a request for a port of it, and by what right the request is made:
// that of who made the sandbox, if the ports are public, or if the request has their token.
func (s *Server) Port(r *http.Request) (*http.Request, *access.Grant, error) {
	id, port, _ := s.Target(r)
	b, ok := s.cfg.Store.Get(id)
	if !ok || s.over(b) {
		return nil, nil, errGone(id)
	}
	if b.Traffic != "" && !access.Same(r.Header.Get(ports.TrafficHeader), b.Traffic) {
		return nil, nil, &Error{Status: http.StatusForbidden, Message: "The ports of the sandbox are not public: send its token in e2b-traffic-access-token", Sandbox: id}
	}
	if _, err := ports.Number(port); err != nil {
		return nil, nil, err
	}
	if b.Preset.Code && port == codePort && runsCode(r.URL.EscapedPath()) && !access.Same(r.Header.Get("X-Access-Token"), b.Token) {
		return nil, nil, &Error{Status: http.StatusUnauthorized, Message: "Code is run for those who have the token of the sandbox: send it in X-Access-Token", Sandbox: id}
	}
	g, err := s.grantOf(b)
	if err == nil {
		b, err = s.awake(r.Context(), id)
	}
	if err != nil {
		return nil, nil, err
	}
	return s.enter(r, b), g, nil
}

// runsCode reports whether the interpreter may run code for a path: for all but those for
// which the published clients send no token.
func runsCode(path string) bool {
	return path != "/health" && path != "/contexts" && !strings.HasPrefix(path, "/contexts/")
}

// Dial connects to the port of a request that Port let in. host is what the program there
// is addressed as.
func (s *Server) Dial(ctx context.Context, r *http.Request) (conn net.Conn, port int, host string, err error) {
	b := boxOf(r.Context())
	_, text, _ := s.Target(r)
	if port, err = ports.Number(text); err != nil {
		return nil, 0, "", err
	}
	conn, err = s.cfg.Sandboxes.DialPort(ctx, b.Agent, b.ID, port)
	if errors.Is(err, corral.ErrNotListening) {
		err = &Error{Status: http.StatusBadGateway, Message: "The sandbox is running but port is not open", Sandbox: b.ID, Port: port}
	}
	return conn, port, cmp.Or(strings.ReplaceAll(b.Host, "${PORT}", text), r.Host), err
}
