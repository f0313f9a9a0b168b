package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
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
		{pattern: "GET /v1/sandboxes/{name}/ports/{port}", waits: true, right: access.Run, host: corral.HostSandbox, handle: s.ofOwner(s.port(s.dialPort, s.tunnelPort))},
		{pattern: "/v1/sandboxes/{name}/ports/{port}/{path...}", waits: true, right: access.Run, host: corral.HostSandbox, handle: s.ofOwner(s.port(s.dialPort, s.proxyPort)), head: true, pages: true},
		{pattern: "GET /v1/nodes/{name}/ports/{port}", waits: true, right: access.Run, host: corral.HostNode, handle: s.port(s.dialNode, s.tunnelPort)},
		{pattern: "/v1/nodes/{name}/ports/{port}/{path...}", waits: true, right: access.Run, host: corral.HostNode, handle: s.port(s.dialNode, s.proxyPort), head: true, pages: true},
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
		port, err := ports.Number(r.PathValue("port"))
		if err != nil {
			return err
		}
		return s.withPort(w, r, dial(a.Name(), r.PathValue("name"), port), h)
	}
}

// withPort connects to a port, by dial. The client counts as one that stays.
func (s *Server) withPort(w http.ResponseWriter, r *http.Request, dial func(context.Context) (*portConn, error), h portHandler) error {
	leave, err := s.stay(r.Context())
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
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the program decides how long it waits
		err = h(w, r.WithContext(ctx), conn)
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStopping) {
		err = cause
	}
	return err
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

// tunnelPort makes the client's connection one to the port, or the connection that the
// client hands over.
func (s *Server) tunnelPort(w http.ResponseWriter, r *http.Request, conn *portConn) error {
	protocol := ""
	switch offered := r.Header.Values("Upgrade"); {
	case !hasToken(r.Header.Values("Connection"), "upgrade"):
	case overUnix(r) && hasToken(offered, api.HandOverProtocol):
		protocol = api.HandOverProtocol
	case hasToken(offered, api.TunnelProtocol):
		protocol = api.TunnelProtocol
	}
	if protocol == "" {
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
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n" + api.HeaderRequestID + ": "
	if _, err := client.Write([]byte(head + id + "\r\n\r\n")); err != nil {
		return err
	}
	port := tunnel.End{Conn: conn.Conn, Moved: count(conn.out)}
	if over, ok := raw.(*net.UnixConn); ok && protocol == api.HandOverProtocol {
		return joinHandedOver(r.Context(), over, tunnel.End{Moved: count(conn.in)}, port)
	}
	// What was read already; the rest is read past net/http, which would take the end of
	// it for the client's.
	early, err := buffered.Reader.Peek(buffered.Reader.Buffered())
	if err != nil {
		return err
	}
	return tunnel.Join(r.Context(), tunnel.End{Conn: client, Early: early, Moved: count(conn.in)}, port)
}

// handOverLimit bounds how long a client takes to hand its connection over.
const handOverLimit = 10 * time.Second

// joinHandedOver joins the connection that comes over the client's own, and ends it when
// the client closes that.
func joinHandedOver(ctx context.Context, over *net.UnixConn, client, port tunnel.End) error {
	if err := over.SetReadDeadline(time.Now().Add(handOverLimit)); err != nil {
		return err
	}
	var err error
	if client.Conn, err = tunnel.Receive(over); err != nil {
		return corral.Errorf(corral.ErrInvalid, "send one byte, and with it the connection (SCM_RIGHTS)", "no connection was handed over: %w", err)
	}
	if err := over.SetReadDeadline(time.Time{}); err != nil {
		return errors.Join(err, client.Close())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = over.Read(make([]byte, 1)) // nothing more is to come but its end
		cancel(errGone)
	})
	err = tunnel.Join(ctx, client, port)
	_ = over.Close() // the client sees by it that this is the end
	wg.Wait()
	return err
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
