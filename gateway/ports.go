package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/tunnel"
)

// portRoutes lead to what listens inside sandboxes and on nodes: one by HTTP, whatever
// the method, and one to the port itself.
func (s *Server) portRoutes() []route {
	return []route{
		{pattern: "GET /v1/sandboxes/{name}/ports/{port}", waits: true, right: access.Run, handle: s.ofOwner(s.port(s.dialPort, s.tunnelPort))},
		{pattern: "/v1/sandboxes/{name}/ports/{port}/{path...}", waits: true, right: access.Run, handle: s.ofOwner(s.port(s.dialPort, s.proxyPort)), head: true, pages: true},
		{pattern: "GET /v1/nodes/{name}/ports/{port}", waits: true, right: access.Run, handle: s.port(s.dialNode, s.tunnelPort)},
		{pattern: "/v1/nodes/{name}/ports/{port}/{path...}", waits: true, right: access.Run, handle: s.port(s.dialNode, s.proxyPort), head: true, pages: true},
	}
}

// A portDialer connects to a port of a sandbox or node, on behalf of an agent.
type portDialer func(agent, name string, port int) func(context.Context) (*portConn, error)

// connectLimit bounds how long it takes to connect to a port. The warden has a lower
// limit of its own; this one is for the way to the warden.
const connectLimit = 20 * time.Second

// A portHandler answers a request with a connection to a port, which is closed after it.
type portHandler func(w http.ResponseWriter, r *http.Request, conn *portConn) error

// port is a handler of requests to a port that dial connects to.
func (s *Server) port(dial portDialer, h portHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, err := s.agent(r)
		if err != nil {
			return err
		}
		port, err := parsePort(r.PathValue("port"))
		if err != nil {
			return err
		}
		return s.withPort(w, r, dial(a.Name(), r.PathValue("name"), port), h)
	}
}

// withPort connects to a port, by dial. The client counts as one that stays.
func (s *Server) withPort(w http.ResponseWriter, r *http.Request, dial func(context.Context) (*portConn, error), h portHandler) error {
	leave, err := s.stay()
	if err != nil {
		return err
	}
	defer leave()
	ctx, away := r.Context(), func() {}
	if r.Header.Get("Upgrade") == "" && r.ContentLength == 0 { // else a client may end what it sends, and stay
		ctx, away = whilePresent(r)
	}
	defer away()
	ctx, cancel := s.whileServing(ctx)
	defer cancel()
	dialCtx, done := context.WithTimeout(ctx, connectLimit)
	conn, err := dial(dialCtx)
	done()
	if err == nil {
		defer conn.Close()
		err = h(w, r.WithContext(ctx), conn)
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStopping) {
		err = cause
	}
	return err
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, corral.Errorf(corral.ErrInvalid, "ports are numbered 1 to 65535", "%.20q is no TCP port", text)
	}
	return int(n), nil
}

// dialPort connects to a port of an agent's sandbox.
func (s *Server) dialPort(agent, name string, port int) func(context.Context) (*portConn, error) {
	return s.dialing(s.cfg.DialPort, errNoSandboxes, agent, name, port)
}

var errNoSandboxes = corral.Errorf(corral.ErrNotFound, "turn the sandbox on (sandbox.mode)", "this gateway has no sandboxes")

// dialNode connects to a port of a node.
func (s *Server) dialNode(agent, name string, port int) func(context.Context) (*portConn, error) {
	return s.dialing(s.cfg.DialNode, errNoNodes, agent, name, port)
}

// dialing connects by dial; without one the error is missing.
func (s *Server) dialing(dial func(ctx context.Context, agent, name string, port int) (net.Conn, error), missing error, agent, name string, port int) func(context.Context) (*portConn, error) {
	return func(ctx context.Context) (*portConn, error) {
		if dial == nil {
			return nil, missing
		}
		conn, err := dial(ctx, agent, name, port)
		if err != nil {
			return nil, err
		}
		return s.countPort(conn, port)
	}
}

// proxyPort passes on a request by HTTP, and the answer.
func (s *Server) proxyPort(w http.ResponseWriter, r *http.Request, conn *portConn) error {
	prefix, path := ports.SplitPath(r.URL.EscapedPath())
	return s.ports.Serve(w, r, ports.Target{Conn: conn, Port: conn.port, Prefix: prefix, Path: path})
}

// countPort has the bytes counted of a connection to a port.
func (s *Server) countPort(conn net.Conn, port int) (*portConn, error) {
	c, ok := conn.(tunnel.Conn)
	if !ok {
		return nil, errors.Join(corral.Errorf(api.ErrInternal, "", "a connection to a port cannot be half-closed"), conn.Close())
	}
	return &portConn{Conn: c, port: port, in: s.metrics.portBytes.WithLabelValues("in"), out: s.metrics.portBytes.WithLabelValues("out")}, nil
}

// portConn is a connection to a port whose bytes are counted.
type portConn struct {
	tunnel.Conn
	port    int
	in, out prometheus.Counter
}

func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.out.Add(float64(n))
	return n, err
}

func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.in.Add(float64(n))
	return n, err
}

// tunnelPort makes the client's connection one to the port.
func (s *Server) tunnelPort(w http.ResponseWriter, r *http.Request, conn *portConn) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), api.TunnelProtocol) || !hasToken(r.Header.Values("Connection"), "upgrade") {
		return corral.Errorf(corral.ErrInvalid, "for HTTP add a / after the port; for the port itself send Connection: Upgrade and Upgrade: "+api.TunnelProtocol, "the request is none for a tunnel")
	}
	id := w.Header().Get(api.HeaderRequestID)
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	client, ok := raw.(tunnel.Conn)
	if !ok {
		return errors.Join(corral.Errorf(api.ErrInternal, "", "the client's connection cannot be half-closed"), raw.Close())
	}
	defer client.Close()
	const head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + api.TunnelProtocol + "\r\n" + api.HeaderRequestID + ": "
	if _, err := client.Write([]byte(head + id + "\r\n\r\n")); err != nil {
		return err
	}
	// What was read already; the rest is read past net/http, which would take the end of
	// it for the client's.
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		return err
	}
	return tunnel.Join(r.Context(), tunnel.End{Conn: client, Early: early, Moved: count(conn.in)}, tunnel.End{Conn: conn.Conn, Moved: count(conn.out)})
}

func count(to prometheus.Counter) func(int64) {
	return func(n int64) { to.Add(float64(n)) }
}

// hasToken reports whether a header that is a list has a word.
func hasToken(values []string, word string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}
