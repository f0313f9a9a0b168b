package broker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// External is an external NATS server, or a cluster of them, in the place of a
// [Server]. [ServerConfig] returns the configuration that it needs.
type External struct {
	// URL is tls:// or wss://, or nats:// or ws:// for a server on this machine. There
	// may be several, separated by commas.
	URL string
	// Creds names a file with the credentials of the gateway's user, as the
	// operators of NATS hand them out (.creds), or with the seed of its nkey.
	Creds string
	// Cert is the SHA-256 of the server's certificate, in hexadecimal. Empty:
	// it has one that this machine trusts.
	Cert string
}

// oldest is the oldest version of a server that Corral is tested with.
var oldest = [3]int{2, 9, 0}

// checkLimit bounds the check whether a server can be used.
const checkLimit = 10 * time.Second

// Connect opens a connection for the gateway to a suitable server: it is new enough,
// takes messages that are large enough, and lets this user use the subjects of package
// fabric. Otherwise the error says what to change.
func (x External) Connect(opts ...nats.Option) (*nats.Conn, error) {
	secure, err := x.secure()
	if err != nil {
		return nil, err
	}
	auth, err := credentials(x.Creds)
	if err != nil {
		return nil, err
	}
	c, err := dial(x.URL, secure, append(opts[:len(opts):len(opts)], auth))
	if err != nil {
		return nil, err
	}
	if err := usable(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// secure returns an option that requires TLS for every connection to another machine,
// in spite of anything that the server claims. It is nil if the server decides about
// TLS.
func (x External) secure() (nats.Option, error) {
	const hint = "write it like tls://nats.example.com:4222"
	wanted := x.Cert != ""
	for _, s := range strings.Split(x.URL, ",") {
		s = strings.TrimSpace(s)
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return nil, corral.Errorf(corral.ErrInvalid, hint, "%q is no address of a message server", redacted(s))
		}
		switch u.Scheme {
		case "tls", "wss":
			wanted = true
		case "nats", "ws":
			if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
				return nil, corral.Errorf(corral.ErrInvalid, "use tls:// or wss://: commands, and what they print, pass there",
					"the message server %s is on another machine, and is to be spoken to without TLS", redacted(s))
			}
		default:
			return nil, corral.Errorf(corral.ErrInvalid, hint, "%q is no address of a message server: it begins with none of tls://, wss://, nats:// and ws://", redacted(s))
		}
	}
	if !wanted {
		return nil, nil
	}
	return nats.Secure(pinned(x.Cert)), nil
}

// Key returns the public nkey of the gateway's user, from Creds.
func (x External) Key() (string, error) {
	key, _, err := readCreds(x.Creds)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	return key.PublicKey()
}

// maxCreds bounds the file of credentials, in bytes.
const maxCreds = 64 << 10

// credentials returns the option for a file of credentials.
func credentials(path string) (nats.Option, error) {
	key, jwt, err := readCreds(path)
	if err != nil {
		return nil, err
	}
	if jwt {
		key.Wipe()
		return nats.UserCredentials(path), nil // the library reads the file at each connection, since credentials are renewed
	}
	return withKey(key)
}

// readCreds reads the key in a file of credentials, and whether it has a JWT as well.
// No error contains its text.
func readCreds(path string) (key nkeys.KeyPair, jwt bool, err error) {
	const hint = "give the file with the gateway's credentials (.creds), or with the seed of its nkey (it begins with SU)"
	if path == "" {
		return nil, false, corral.Errorf(corral.ErrInvalid, hint, "no file with the gateway's credentials for the message server is named")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, corral.Errorf(corral.ErrInvalid, hint, "cannot read the credentials for the message server: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxCreds))
	if err != nil {
		return nil, false, corral.Errorf(corral.ErrInvalid, hint, "cannot read the credentials for the message server: %w", err)
	}
	key, err = nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, false, corral.Errorf(corral.ErrInvalid, hint, "%s has no key of a user: %w", path, err)
	}
	return key, strings.Contains(string(text), "BEGIN NATS USER JWT"), nil
}

// usable reports why the server of c cannot be used.
func usable(c *nats.Conn) error {
	where := "the message server " + c.ConnectedUrlRedacted()
	if n := c.MaxPayload(); n < maxPayload {
		return corral.Errorf(corral.ErrUnavailable, "set max_payload: 64KB, or more, in its configuration",
			"%s takes messages of at most %d bytes, and Corral needs %d", where, n, maxPayload)
	}
	var v [3]int
	if _, err := fmt.Sscanf(c.ConnectedServerVersion(), "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "use nats-server", "%s says that its version is %q, which is none", where, c.ConnectedServerVersion())
	}
	if older(v, oldest) {
		return corral.Errorf(corral.ErrUnavailable, "upgrade nats-server",
			"%s has version %s, and Corral needs %d.%d.%d or newer", where, c.ConnectedServerVersion(), oldest[0], oldest[1], oldest[2])
	}
	if !c.HeadersSupported() {
		return corral.Errorf(corral.ErrUnavailable, "take no_header_support out of its configuration",
			"%s does not support headers, by which Corral learns at once that a node is away", where)
	}
	end := time.Now().Add(checkLimit)
	may := func(verb, subject string, err error) error {
		if err == nil {
			err = c.FlushTimeout(time.Until(end))
		}
		// An error of the server arrives before its answer.
		if err == nil {
			if last := c.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
				return corral.Errorf(corral.ErrDenied, "have it allow what corral nodes server-config prints for the gateway",
					"%s does not let the gateway's user %s %s", where, verb, subject)
			}
			return nil
		}
		return corral.Errorf(corral.ErrUnavailable, "look at its log", "%s does not answer whether the gateway's user may %s %s: %w", where, verb, subject, err)
	}
	// Unused names, so that no node receives this.
	life, node := corral.NewID(), corral.NewID()
	ask, answer := fabric.PairSubjects("*")
	for _, subject := range []string{fabric.GatewaySubjects(life), fabric.AllHellos, ask} {
		s, err := c.SubscribeSync(subject)
		if err := may("subscribe to", subject, err); err != nil {
			return err
		}
		if err := s.Unsubscribe(); err != nil {
			return fmt.Errorf("cannot end a subscription to %s: %w", where, err)
		}
	}
	for _, subject := range []string{fabric.RequestSubject(node), fabric.PartSubject(node), fabric.WhoSubject(node), strings.Replace(answer, "*", node, 1)} {
		if err := may("publish on", subject, c.Publish(subject, nil)); err != nil {
			return err
		}
	}
	return nil
}

func older(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
