// Package natstest runs a nats-server of somebody else's for tests: the one that
// the system has, as a process of its own. It is Debian's package nats-server, of
// version 2.9 on Debian 12.
package natstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Debian has it where the PATH of users does not lead.
const debians = "/usr/sbin/nats-server"

// startLimit is how long a server has to begin.
const startLimit = 20 * time.Second

// Server is one that runs until the test ends.
type Server struct {
	URL  string // where it takes connections, with TLS: tls://127.0.0.1:PORT
	Cert string // the SHA-256 of its certificate, in hexadecimal
}

// Start starts a server on loopback, with TLS, and with more configuration in its
// own syntax. It fails the test if there is no nats-server.
func Start(t testing.TB, config string) *Server {
	t.Helper()
	path, err := exec.LookPath("nats-server")
	if err != nil {
		path = debians
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	s := &Server{Cert: certificate(t, file("cert.pem"), file("key.pem"))}
	write(t, file("server.conf"), fmt.Appendf(nil, `
host: "127.0.0.1"
port: -1
ports_file_dir: %q
log_file: %q
tls { cert_file: %q, key_file: %q }
%s
`, dir, file("log"), file("cert.pem"), file("key.pem"), config))
	cmd := exec.Command(path, "-c", file("server.conf"))
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start a nats-server: %v (Debian's package is nats-server)", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is ended by a signal, or says why in its log
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		<-ended
		if log, err := os.ReadFile(file("log")); t.Failed() && err == nil {
			t.Logf("the log of nats-server is\n%s", log)
		}
	})
	ports := file(fmt.Sprintf("%s_%d.ports", filepath.Base(path), cmd.Process.Pid))
	for end := time.Now().Add(startLimit); s.URL == ""; {
		s.URL = read(t, ports)
		select {
		case <-ended:
			log, _ := os.ReadFile(file("log")) // what there is of it
			t.Fatalf("nats-server has ended: %s\n%s", printed.String(), log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Fatal("nats-server does not say where it listens")
		}
	}
	return s
}

// read is the address in a file that the server writes when it listens; empty if
// it is not there, or not all of it.
func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var ports struct {
		Nats []string `json:"nats"`
	}
	if json.Unmarshal(b, &ports) != nil || len(ports.Nats) == 0 {
		return ""
	}
	_, address, _ := strings.Cut(ports.Nats[0], "://")
	return "tls://" + address
}

// certificate makes one, and returns its fingerprint.
func certificate(t testing.TB, certFile, keyFile string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats-server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
