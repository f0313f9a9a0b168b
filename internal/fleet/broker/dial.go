package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/selfcert"
)

// Pinned returns the options to connect to a [Server] whose certificate has that
// fingerprint, with the node's own key. URLs are tls:// or wss://.
func Pinned(want string, key nkeys.KeyPair) ([]nats.Option, error) {
	auth, err := withKey(key)
	if err != nil {
		return nil, err
	}
	return []nats.Option{auth, tlsFirst, nats.Secure(pinned(want))}, nil
}

// Dial connects a node, or a machine that asks to be one, to a message server: a
// [Server], or an [External] one. The URL is tls:// or wss://; there may be
// several, separated by commas. The certificate has that fingerprint or, if that
// is empty, is one that the machine trusts. The key is the node's own.
//
// The first connection is made before Dial returns; nats.RetryOnFailedConnect
// is not for it.
func Dial(url, cert string, key nkeys.KeyPair, opts ...nats.Option) (*nats.Conn, error) {
	auth, err := withKey(key)
	if err != nil {
		return nil, err
	}
	return dial(url, nats.Secure(pinned(cert)), append([]nats.Option{auth}, opts...))
}

// dial begins a secure connection with TLS, as a Server expects. Other servers usually
// send something before.
func dial(url string, secure nats.Option, opts []nats.Option) (c *nats.Conn, err error) {
	plain := append(opts[:len(opts):len(opts)], secure)
	if secure != nil {
		c, err = nats.Connect(url, append(plain, tlsFirst)...)
	}
	if secure == nil || err != nil && saysFirst(url, err) {
		c, err = nats.Connect(url, plain...)
	}
	if err != nil {
		return nil, dialError(url, err)
	}
	return c, nil
}

// saysFirst reports whether a server may send something before TLS. With several
// servers the error is that of the last one, which may not even exist.
func saysFirst(url string, err error) bool {
	if other := (tls.RecordHeaderError{}); errors.As(err, &other) {
		return true
	}
	return strings.Contains(url, ",") && !errors.Is(err, corral.ErrDenied) && !errors.Is(err, nats.ErrAuthorization)
}

// Strange describes the program at the URL of a message server, if err shows that it is
// no message server, or one for connections of another kind; else it returns nil. It
// leaves out the text of the reply, which is for machines and may differ with each
// attempt.
func Strange(url string, err error) error {
	const hint = "look whether it is the right address and port: corral nodes join prints both on the gateway, for WebSockets with --websocket"
	web := strings.HasPrefix(url, "ws")
	var record tls.RecordHeaderError
	var op *net.OpError
	text := ""
	switch {
	case web && strings.Contains(err.Error(), "malformed HTTP"):
		text = "what answers there takes connections by TCP, and no WebSockets"
	case web && strings.Contains(err.Error(), "invalid websocket connection"):
		text = "what answers there is a web server that takes no WebSockets"
	case errors.As(err, &record), strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		text = "what answers there speaks no TLS, so that it is another program"
	case !web && (errors.As(err, &op) && op.Op == "read" && op.Timeout() || strings.Contains(err.Error(), "INFO not received")):
		text = "what answers there does not say what a message server says: it may take WebSockets alone, or be another program"
	default:
		return nil
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "%s", text)
}

func dialError(url string, err error) error {
	if strange := Strange(url, err); strange != nil {
		err = strange
	}
	kind, hint := corral.ErrUnavailable, "look whether it is the right address, whether the server runs, and whether a firewall is in between"
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case corral.Hint(err) != "" && !errors.Is(err, corral.ErrDenied):
		hint = corral.Hint(err)
	case errors.Is(err, corral.ErrDenied):
		kind, hint = corral.ErrDenied, corral.Hint(err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		kind, hint = corral.ErrDenied, "have the server's operator allow the key: corral nodes server-config prints what its configuration needs"
	case errors.Is(err, nats.ErrSecureConnWanted):
		kind, hint = corral.ErrDenied, "configure TLS in the message server"
	case errors.As(err, &unknown), errors.As(err, &name):
		kind, hint = corral.ErrDenied, "use a certificate that this machine trusts for that name, or give the fingerprint of the one that there is"
	}
	return corral.Errorf(kind, hint, "cannot connect to the message server %s: %w", redacted(url), err)
}

// redacted returns url without possible secrets.
func redacted(url string) string {
	list := strings.Split(url, ",")
	for i, u := range list {
		scheme, rest, ok := strings.Cut(u, "://")
		if !ok {
			scheme, rest = "", u
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = "…" + rest[at:]
		}
		if list[i] = rest; ok {
			list[i] = scheme + "://" + rest
		}
	}
	return strings.Join(list, ",")
}

func withKey(key nkeys.KeyPair) (nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(public, key.Sign), nil
}

// pinned is TLS with a server whose certificate has that fingerprint or, if want is
// empty, one that the machine trusts.
func pinned(want string) *tls.Config {
	return selfcert.Pinned(want, tls.VersionTLS13, "pair the node again, if it is the right gateway")
}

// tlsFirst begins the connection with TLS. A WebSocket does so anyway, and the client
// would begin TLS a second time within it.
func tlsFirst(o *nats.Options) error {
	for _, u := range o.Servers {
		if scheme, _, _ := strings.Cut(u, "://"); strings.EqualFold(scheme, "wss") {
			return nil
		}
	}
	return nats.TLSHandshakeFirst()(o)
}
