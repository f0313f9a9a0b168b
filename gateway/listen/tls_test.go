package listen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A certificate that has expired, or does while the gateway runs, is told once.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		writeCertificate(t, cert, key, time.Now().Add(time.Hour))
		var log bytes.Buffer
		c, err := TLS(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 0, 1, 1} {
			if _, err := c.GetCertificate(nil); err != nil || strings.Count(log.String(), "has expired") != want {
				t.Errorf("%v, want it told %d times: %s", err, want, log.String())
			}
			time.Sleep(40 * time.Minute)
		}
		if _, err := TLS(cert, key, slog.New(slog.NewTextHandler(&log, nil))); err != nil || strings.Count(log.String(), "has expired") != 2 {
			t.Errorf("at the start: %v, %s", err, log.String())
		}
	})
}

func writeCertificate(t *testing.T, cert, key string, until time.Time) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-24 * time.Hour), NotAfter: until}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: made}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
