package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/internal/state/selfcert"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// pair writes a new certificate and its key into two files.
func pair(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	file := filepath.Join(testdir.New(t), "both.pem")
	c, err := selfcert.Load(file, "a test", "")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(data)
	for name, b := range map[string][]byte{cert: pem.EncodeToMemory(block), key: rest} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c.Leaf
}

// Over TLS of 1.2 at least; a new certificate is shown without a restart, and one that
// cannot be used is not.
func TestTLS(t *testing.T) {
	dir := testdir.New(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := pair(t, cert, key)
	g := newRig(t, func(c *Config) {
		var err error
		if c.TLS, err = listen.TLS(cert, key, c.Log); err != nil {
			t.Fatal(err)
		}
	})
	address := g.url[len("http://"):]
	shown := func() *x509.Certificate {
		t.Helper()
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	if !shown().Equal(first) {
		t.Error("it shows another certificate")
	}
	bySSL(t, address, first)
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		conn.Close()
		t.Error("it speaks TLS 1.1")
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: selfcert.Pinned(selfcert.Fingerprint(first.Raw), tls.VersionTLS12, "")}}
	defer c.CloseIdleConnections()
	g.send(c, "https://"+address+"/v1/sessions", "GET", "", "Authorization", "Bearer "+testToken).is(200)
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: selfcert.Pinned("00", tls.VersionTLS12, "")}}
	if resp, err := other.Get("https://" + address + "/v1/health"); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("another fingerprint: %v, %v", resp, err)
	}

	second := pair(t, cert, key)
	time.Sleep(listen.LookAgain + 100*time.Millisecond)
	if !shown().Equal(second) {
		t.Error("it does not show the new certificate")
	}
	bySSL(t, address, second)
	if err := os.WriteFile(key, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(listen.LookAgain + 100*time.Millisecond)
	if !shown().Equal(second) {
		t.Error("it does not show the certificate that can be used")
	}
}

// bySSL has openssl say the same: which versions there are, and which certificate.
func bySSL(t *testing.T, address string, cert *x509.Certificate) {
	t.Helper()
	for version, spoken := range map[string]bool{"tls1": false, "tls1_1": false, "tls1_2": true, "tls1_3": true} {
		// By itself it refuses the old versions at this level.
		cmd := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", address, "-"+version, "-cipher", "DEFAULT@SECLEVEL=0")
		cmd.Stdin = strings.NewReader("")
		out, err := cmd.CombinedOutput()
		switch {
		case !spoken && (err == nil || !bytes.Contains(out, []byte("alert protocol version"))):
			t.Errorf("openssl s_client -%s: %v\n%s", version, err, out)
		case spoken:
			at := max(bytes.Index(out, []byte("-----BEGIN CERTIFICATE")), 0)
			block, _ := pem.Decode(out[at:])
			if err != nil || block == nil || !bytes.Equal(block.Bytes, cert.Raw) {
				t.Errorf("openssl s_client -%s: %v\n%s", version, err, out)
			}
		}
	}
}

// Beyond the loopback interface there is TLS and a key, or no gateway.
func TestBeyondLoopback(t *testing.T) {
	g := newRig(t, nil)
	keys, err := access.Open(filepath.Join(testdir.New(t), api.KeysFile))
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	secure := listen.WithCertificate(nil)
	far := &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	for name, c := range map[string]Config{"nothing": {}, "TLS alone": {TLS: secure}, "TLS, no keys": {TLS: secure, Keys: keys}, "keys alone": {Keys: keys}} {
		if err := (&Server{cfg: c}).mayFace(far); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.key(keys, api.NewKey{Name: "a", Role: "viewer"})
	if err := (&Server{cfg: Config{TLS: secure, Keys: keys}}).mayFace(far); err != nil {
		t.Error(err)
	}
	if err := (&Server{cfg: Config{Keys: keys}}).mayFace(far); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("without TLS: %v", err)
	}
}
