package listen

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
)

// TLS is the configuration of a listener with the certificate in two files, PEM, which
// are read anew when they change: no renewal needs a restart. While the new ones do not
// fit together, the certificate is the one before.
func TLS(cert, key string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, log: log}
	if _, err := c.get(nil); err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "name a certificate and its key, both PEM, in gateway.tls", "cannot use the certificate %s: %w", cert, err)
	}
	return WithCertificate(c.get), nil
}

// WithCertificate is TLS with a certificate from elsewhere.
func WithCertificate(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get, NextProtos: []string{"http/1.1"}}
}

// LookAgain is how long a certificate is used before the files are looked at again.
const LookAgain = time.Second

type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	looked time.Time
	was    [2]fs.FileInfo // the files, when they were loaded
	told   bool           // that loaded has expired
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != nil && time.Since(c.looked) < LookAgain {
		return c.loaded, nil
	}
	c.looked = time.Now()
	defer c.tellExpired()
	cert, err := os.Stat(c.cert)
	key, kerr := os.Stat(c.key)
	if err = errors.Join(err, kerr); err == nil && c.loaded != nil && config.Unchanged(cert, c.was[0]) && config.Unchanged(key, c.was[1]) {
		return c.loaded, nil
	}
	var loaded tls.Certificate
	if err == nil {
		loaded, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	switch {
	case err == nil:
		if c.loaded != nil {
			c.log.Info("the gateway has another certificate", "file", c.cert, "until", loaded.Leaf.NotAfter)
		}
		c.loaded, c.was, c.told = &loaded, [2]fs.FileInfo{cert, key}, false
	case c.loaded == nil:
		return nil, err
	default:
		c.log.Warn("the new certificate cannot be used, and the one before is", "file", c.cert, "error", err)
	}
	return c.loaded, nil
}

// tellExpired says once that clients refuse the certificate.
func (c *certificate) tellExpired() {
	if c.loaded != nil && !c.told && c.looked.After(c.loaded.Leaf.NotAfter) {
		c.told = true
		c.log.Error("the certificate has expired, so clients refuse it", "file", c.cert, "since", c.loaded.Leaf.NotAfter, "hint", "renew it: the files are read anew when they change")
	}
}
