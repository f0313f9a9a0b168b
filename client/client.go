package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/state/selfcert"
	"github.com/corral-exec/corral/session"
)

// DefaultRetry is how long a gateway may be away.
const DefaultRetry = 30 * time.Second

// Options of a Client. Either Socket or URL is required.
type Options struct {
	// Socket is the path of the gateway's Unix socket.
	Socket string
	// URL is where the gateway listens on TCP ("http://127.0.0.1:7777"), and
	// Token what it demands there.
	URL   string
	Token string // or the secret of a key
	// Fingerprint is the SHA-256 of the gateway's certificate, in hexadecimal. Empty:
	// it is one that this machine trusts.
	Fingerprint string

	// Agent is whose sessions they are. Empty: session.DefaultAgent.
	Agent string
	// Session is the key of the conversation that calls are made in: with
	// sandbox.scope "session" each has a sandbox of its own. Empty: none is named.
	Session string
	// Retry bounds how long calls are repeated while the gateway is away.
	// 0: DefaultRetry; negative: they are not.
	Retry time.Duration
}

// Discover finds the gateway that uses a state directory. ErrUnavailable if
// none listens there.
func Discover(stateDir string) (Options, error) {
	o := Options{Socket: filepath.Join(stateDir, api.SocketFile)}
	conn, err := net.DialTimeout("unix", o.Socket, time.Second)
	if err != nil {
		return Options{}, corral.Errorf(corral.ErrUnavailable, startHint, cannotReach, o.Socket, bare(err))
	}
	return o, conn.Close()
}

// A Client speaks to one gateway, for one agent. Every method may be called
// from any goroutine.
type Client struct {
	base    url.URL
	where   string // the gateway, for people
	tcp     bool   // it was named by its URL
	token   string
	agent   string
	session string
	retry   time.Duration
	http    *http.Client
	tls     *tls.Config
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // to the gateway
	life    context.Context                                                      // of streams that outlast a call
	end     context.CancelFunc
	reached atomic.Bool
}

// New makes a Client. It connects when it is used.
func New(o Options) (*Client, error) {
	c := &Client{token: o.Token, agent: o.Agent, retry: o.Retry}
	c.agent = cmp.Or(c.agent, session.DefaultAgent)
	if err := session.ValidateAgent(c.agent); err != nil {
		return nil, err
	}
	var err error
	if c.session, err = config.ParseSession(o.Session); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.session, unicode.IsControl) {
		return nil, corral.Errorf(corral.ErrInvalid, "leave them out", "the session's key %q has control characters in it", c.session)
	}
	if strings.ContainsFunc(c.token, noHeader) { // such as the end of a line in its file
		return nil, corral.Errorf(corral.ErrInvalid, "leave them out", "the token has control characters in it")
	}
	c.retry = cmp.Or(c.retry, DefaultRetry)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	dial := dialer.DialContext
	switch {
	case (o.Socket == "") == (o.URL == ""):
		return nil, corral.Errorf(corral.ErrInvalid, "set Socket or URL", "a client needs to know where its gateway is, once")
	case o.Socket != "":
		c.where = o.Socket
		c.base = url.URL{Scheme: "http", Host: "localhost"}
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", o.Socket)
		}
	default:
		base, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
			return nil, corral.Errorf(corral.ErrInvalid, "write it like http://127.0.0.1:7777", "%q is no address of a gateway", shown(o.URL))
		}
		if o.Fingerprint != "" && base.Scheme == "http" {
			return nil, corral.Errorf(corral.ErrInvalid, "write it with https://", "%q has no certificate, and a fingerprint was given", shown(o.URL))
		}
		c.where, c.base, c.tcp = base.Redacted(), *base, true
	}
	fingerprint := strings.ReplaceAll(o.Fingerprint, ":", "")
	if sum, err := hex.DecodeString(fingerprint); o.Fingerprint != "" && (err != nil || len(sum) != sha256.Size) {
		return nil, corral.Errorf(corral.ErrInvalid, "it has 64 hexadecimal digits", "%q is no fingerprint of a certificate", o.Fingerprint)
	}
	c.dial, c.tls = dial, selfcert.Pinned(fingerprint, tls.VersionTLS12, "log in again, if it is the right gateway: corral login")
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: dial, TLSClientConfig: c.tls, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, DisableCompression: true,
		WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// shown is an address for people, unless something in it may be secret: before the host,
// or in a query.
func shown(address string) string {
	if strings.ContainsAny(address, "@?#") {
		return "…"
	}
	return address
}

// Close lets go of the gateway. Commands go on.
func (c *Client) Close() error {
	c.end()
	c.http.CloseIdleConnections()
	return nil
}

// Agent is whose sessions they are.
func (c *Client) Agent() string { return c.agent }

const (
	startHint   = "start one with: corral gateway"
	cannotReach = "no gateway can be reached at %s: %w"
)

func (c *Client) unreachable(err error) error {
	hint := startHint
	if c.tcp { // it need not be for us to start it
		hint = "check the gateway's address, and whether it listens there (corral gateway --listen ADDRESS:PORT)"
	}
	return corral.Errorf(corral.ErrUnavailable, hint, cannotReach, c.where, bare(err))
}
