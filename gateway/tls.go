package gateway

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// TLS is the configuration of a listener with the certificate in two files, PEM, which
// are read anew when they change: no renewal needs a restart. While the new ones do not
// fit together, the certificate is the one before.
func TLS(cert, key string, log *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, log: log}
	if _, err := c.get(nil); err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "name a certificate and its key, both PEM, in gateway.tls", "cannot use the certificate %s: %w", cert, err)
	}
	return TLSWith(c.get), nil
}

// TLSWith is TLS with a certificate from elsewhere.
func TLSWith(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get, NextProtos: []string{"http/1.1"}}
}

// lookAgain is how long a certificate is used before the files are looked at again.
const lookAgain = time.Second

type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	looked time.Time
	stamp  [2]stamp
}

type stamp struct {
	at   time.Time
	size int64
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded != nil && time.Since(c.looked) < lookAgain {
		return c.loaded, nil
	}
	c.looked = time.Now()
	now, err := stamps(c.cert, c.key)
	if err == nil && c.loaded != nil && now == c.stamp {
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
		c.loaded, c.stamp = &loaded, now
	case c.loaded == nil:
		return nil, err
	default:
		c.log.Warn("the new certificate cannot be used, and the one before is", "file", c.cert, "error", err)
	}
	return c.loaded, nil
}

func stamps(names ...string) (s [2]stamp, err error) {
	for i, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, nil
}
