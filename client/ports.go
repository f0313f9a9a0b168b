package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/tunnel"
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

// DialPort connects to what listens on a TCP port inside the agent's sandbox of that
// name, whether or not the sandbox has a network. ctx bounds the connecting alone.
// corral.ErrNotListening: nothing listens there. corral.ErrNotFound: the agent has no
// such sandbox. It is tried once.
func (c *Client) DialPort(ctx context.Context, sandbox string, port int) (*PortConn, error) {
	conn, _, err := c.dialPort(ctx, "sandboxes", sandbox, port, api.TunnelProtocol)
	return conn, err
}

// DialNode is DialPort of a node, which has a name as for commands: it connects to what
// listens in the agent's sandbox there, if its commands run in one, and else on the
// machine. corral.ErrDenied: the node's node.ports does not have the port.
func (c *Client) DialNode(ctx context.Context, node string, port int) (*PortConn, error) {
	conn, _, err := c.dialPort(ctx, "nodes", node, port, api.TunnelProtocol)
	return conn, err
}

// JoinPort joins a connection that the caller accepted with what DialPort connects to,
// until both directions have ended or ctx does, and closes it. A gateway on this machine,
// by its socket, gets the connection itself, so that no byte goes through this program.
// If there is nothing to join it with, its other end sees a reset, and no end of an answer.
func (c *Client) JoinPort(ctx context.Context, conn *net.TCPConn, sandbox string, port int) error {
	return c.joinPort(ctx, conn, "sandboxes", sandbox, port)
}

// JoinNode is JoinPort of a node, as DialNode is of DialPort.
func (c *Client) JoinNode(ctx context.Context, conn *net.TCPConn, node string, port int) error {
	return c.joinPort(ctx, conn, "nodes", node, port)
}

// joinDialLimit bounds how long JoinPort connects.
const joinDialLimit = 30 * time.Second

func (c *Client) joinPort(ctx context.Context, conn *net.TCPConn, of, name string, port int) error {
	defer conn.Close()
	dialing, cancel := context.WithTimeout(ctx, joinDialLimit)
	to, protocol, err := c.dialPort(dialing, of, name, port, api.HandOverProtocol+", "+api.TunnelProtocol)
	cancel()
	if err != nil {
		_ = conn.SetLinger(0)
		return err
	}
	defer to.Close()
	if over, ok := to.Conn.(*net.UnixConn); ok && protocol == api.HandOverProtocol {
		if err := tunnel.HandOver(over, conn); err != nil {
			_ = conn.SetLinger(0)
			return corral.Errorf(corral.ErrUnavailable, "", "the connection cannot be handed to the gateway: %w", err)
		}
		_ = conn.Close() // the gateway's is the only one
		defer context.AfterFunc(ctx, func() { over.Close() })()
		_, _ = to.Read(make([]byte, 1)) // until the gateway closes it, or is gone
		return ctx.Err()
	}
	early, _ := to.r.Peek(to.r.Buffered())                                                                 // what is there can be had
	return tunnel.Join(ctx, tunnel.End{Conn: conn}, tunnel.End{Conn: to.Conn.(tunnel.Conn), Early: early}) // TCP, TLS or a Unix socket: each ends by halves
}

// dialPort offers protocols, and returns which of them the connection speaks.
func (c *Client) dialPort(ctx context.Context, of, name string, port int, protocols string) (_ *PortConn, protocol string, _ error) {
	r, err := c.request(ctx, get(of, name, "ports", strconv.Itoa(port)))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocols)
	conn, err := c.connect(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if hint := pointless(err); hint != "" {
			return nil, "", corral.Errorf(corral.ErrUnavailable, hint, "there is no gateway at %s: %w", c.where, err)
		}
		return nil, "", c.unreachable(err)
	}
	// The connection outlives ctx, but not what is said before it is one to the port.
	cut := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	got, protocol, err := c.upgrade(conn, r)
	if !cut() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, "", err
	}
	return got, protocol, nil
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

// maxHead bounds an answer before the connection is one to a port, in bytes.
const maxHead = 1<<20 + api.MaxBody

// upgrade has the gateway make conn a connection to a port.
func (c *Client) upgrade(conn net.Conn, r *http.Request) (_ *PortConn, protocol string, _ error) {
	if err := r.Write(conn); err != nil {
		return nil, "", c.unreachable(err)
	}
	bounded := &io.LimitedReader{R: conn, N: maxHead}
	answer := bufio.NewReaderSize(bounded, 64<<10)
	resp, err := http.ReadResponse(answer, r)
	if err != nil {
		return nil, "", c.unreachable(err)
	}
	c.reached.Store(true)
	if protocol = strings.ToLower(resp.Header.Get("Upgrade")); resp.StatusCode == http.StatusSwitchingProtocols && slices.Contains([]string{api.TunnelProtocol, api.HandOverProtocol}, protocol) {
		bounded.N = math.MaxInt64
		return &PortConn{Conn: conn, r: answer}, protocol, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return nil, "", corral.Errorf(errors.ErrUnsupported, "check that the address is that of a gateway of this version", "the gateway at %s does not connect to ports: it answers %s", c.where, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, api.MaxBody))
	if err != nil {
		return nil, "", c.unreachable(err)
	}
	return nil, "", api.Decode(resp.StatusCode, body)
}
