package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/selfcert"
)

// MaxKey bounds what is read as a key, in bytes.
const MaxKey = 4096

// ParseKey is a key as a file or a variable has it: one word.
func ParseKey(text string) (key string, ok bool) {
	key = strings.TrimSpace(text)
	return key, key != "" && len(text) <= MaxKey && !strings.ContainsAny(key, " \n\r\t")
}

// CheckSecret refuses to send a key over a network that others can read.
func CheckSecret(u *url.URL) error {
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return corral.Errorf(corral.ErrDenied, "use https://", "a key would be sent to %s for all on the way to read", u.Host)
	}
	return nil
}

// CheckTrusted says what certificate a gateway shows, if it is none that this machine trusts.
func CheckTrusted(ctx context.Context, u *url.URL) error {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		return conn.Close()
	}
	if bad := (*tls.CertificateVerificationError)(nil); errors.As(err, &bad) && len(bad.UnverifiedCertificates) > 0 {
		return corral.Errorf(corral.ErrDenied, "if the gateway's log has the same, add --fingerprint "+selfcert.Fingerprint(bad.UnverifiedCertificates[0].Raw),
			"%s shows a certificate that this machine does not trust: %w", u.Host, bad.Err)
	}
	return corral.Errorf(corral.ErrUnavailable, "check the address", "cannot reach %s: %w", u.Host, err)
}
