package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A PortConn is a connection to a TCP port inside a sandbox, or of a node. Its addresses are those of
// the connection to the gateway.
type PortConn struct {
	net.Conn
	r *bufio.Reader // which may have read more than the answer
}

// Read reads what the program inside sends; io.EOF when it has ended that.
func (c *PortConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite ends what is sent. The program inside reads the end of it, and can still
// answer.
func (c *PortConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Detach is the connection itself, and what was read from it already. The PortConn is
// not to be used any more.
func (c *PortConn) Detach() (net.Conn, []byte) {
	early, _ := c.r.Peek(c.r.Buffered()) // what is there can be had
	return c.Conn, early
}

// DialPort connects to what listens on a TCP port inside the agent's sandbox of that
// name, whether or not the sandbox has a network. ctx bounds the connecting alone.
// corral.ErrNotListening: nothing listens there. corral.ErrNotFound: the agent has no
// such sandbox. It is tried once.
func (c *Client) DialPort(ctx context.Context, sandbox string, port int) (*PortConn, error) {
	return c.dialPort(ctx, "sandboxes", sandbox, port)
}

// DialNode is DialPort of a node, which has a name as for commands: it connects to what
// listens in the agent's sandbox there, if its commands run in one, and else on the
// machine. corral.ErrDenied: the node's node.ports does not have the port.
func (c *Client) DialNode(ctx context.Context, node string, port int) (*PortConn, error) {
	return c.dialPort(ctx, "nodes", node, port)
}

func (c *Client) dialPort(ctx context.Context, of, name string, port int) (*PortConn, error) {
	r, err := c.request(ctx, call{method: http.MethodGet, path: []string{of, name, "ports", strconv.Itoa(port)}})
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", api.TunnelProtocol)
	conn, err := c.connect(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if hint := pointless(err); hint != "" {
			return nil, corral.Errorf(corral.ErrUnavailable, hint, "there is no gateway at %s: %w", c.where, err)
		}
		return nil, c.unreachable(err)
	}
	// The connection outlives ctx, but not what is said before it is one to the port.
	cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	got, err := c.upgrade(conn, r)
	if !cut() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return got, nil
}

// connect makes a connection to the gateway, with TLS if its URL says so.
func (c *Client) connect(ctx context.Context, r *http.Request) (net.Conn, error) {
	address := r.URL.Host
	if r.URL.Port() == "" {
		address = net.JoinHostPort(r.URL.Hostname(), r.URL.Scheme) // a name of a port, too
	}
	conn, err := c.dial(ctx, "tcp", address)
	if err != nil || r.URL.Scheme != "https" {
		return conn, err
	}
	as := c.tls.Clone()
	as.ServerName, as.NextProtos = r.URL.Hostname(), []string{"http/1.1"}
	secure := tls.Client(conn, as)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// upgrade has the gateway make conn a connection to a port.
func (c *Client) upgrade(conn net.Conn, r *http.Request) (*PortConn, error) {
	if err := r.Write(conn); err != nil {
		return nil, c.unreachable(err)
	}
	answer := bufio.NewReaderSize(conn, 64<<10)
	resp, err := http.ReadResponse(answer, r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	c.reached.Store(true)
	if resp.StatusCode == http.StatusSwitchingProtocols && strings.EqualFold(resp.Header.Get("Upgrade"), api.TunnelProtocol) {
		return &PortConn{Conn: conn, r: answer}, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return nil, corral.Errorf(errors.ErrUnsupported, "check that the address is that of a gateway of this version", "the gateway at %s does not connect to ports: it answers %s", c.where, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, api.MaxBody))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return nil, api.Decode(resp.StatusCode, body)
}
