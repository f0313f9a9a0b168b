// Package natstest runs a separate nats-server for tests: the one that
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

	"github.com/corral-exec/corral/internal/test/testnet"
)

// Debian has it where the PATH of users does not lead.
const debians = "/usr/sbin/nats-server"

// startLimit is how long a server has to begin.
const startLimit = 20 * time.Second

// Server is one that runs until the test ends, or until it is killed.
type Server struct {
	URL  string // where it takes connections, with TLS: tls://127.0.0.1:PORT
	Cert string // the SHA-256 of its certificate, in hexadecimal
	Name string // in a cluster

	t     testing.TB
	dir   string
	cmd   *exec.Cmd // nil: it is not running
	ended chan struct{}
}

// Start starts a server on loopback, with TLS, and with more configuration in its
// own syntax. It fails the test if there is no nats-server.
func Start(t testing.TB, config string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	s.Cert = certificate(t, s.file("cert.pem"), s.file("key.pem"))
	s.configure(s.dir, "port: -1\n"+config)
	s.Restart()
	s.await()
	return s
}

// StartCluster starts servers that are one cluster with JetStream, each with the
// same certificate and the same more configuration.
func StartCluster(t testing.TB, size int, config string) []*Server {
	t.Helper()
	shared := t.TempDir()
	cert := certificate(t, filepath.Join(shared, "cert.pem"), filepath.Join(shared, "key.pem"))
	ports := make([]int, 2*size)
	for i := range ports {
		ports[i] = testnet.FreePort(t)
	}
	var routes []string
	for _, port := range ports[size:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	list := make([]*Server, size)
	for i := range list {
		s := &Server{t: t, dir: t.TempDir(), Cert: cert, Name: fmt.Sprintf("s%d", i+1)}
		s.configure(shared, fmt.Sprintf("port: %d\nserver_name: %s\njetstream { store_dir: %q }\ncluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }\n%s",
			ports[i], s.Name, s.file("store"), ports[size+i], strings.Join(routes, ", "), config))
		s.Restart()
		list[i] = s
	}
	for _, s := range list {
		s.await()
	}
	return list
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) configure(certs, config string) {
	s.t.Helper()
	write(s.t, s.file("server.conf"), fmt.Appendf(nil, `
host: "127.0.0.1"
ports_file_dir: %q
log_file: %q
tls { cert_file: %q, key_file: %q }
%s
`, s.dir, s.file("log"), filepath.Join(certs, "cert.pem"), filepath.Join(certs, "key.pem"), config))
	s.t.Cleanup(func() {
		s.Kill()
		if log, err := os.ReadFile(s.file("log")); s.t.Failed() && err == nil {
			s.t.Logf("the log of nats-server %s is\n%s", s.Name, log)
		}
	})
}

// Kill kills the server as kill -9 does, if it runs.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-s.ended
	s.cmd = nil
}

// Restart starts a server of a cluster that was killed, and does not wait for it.
func (s *Server) Restart() {
	s.t.Helper()
	path, err := exec.LookPath("nats-server")
	if err != nil {
		path = debians
	}
	cmd := exec.Command(path, "-c", s.file("server.conf"))
	printed, err := os.Create(s.file("printed"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = printed.Close() }() // it is the server's
	cmd.Stdout, cmd.Stderr = printed, printed
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("cannot start a nats-server: %v (Debian's package is nats-server)", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is ended by a signal, or says why in its log
	}()
	s.cmd, s.ended = cmd, ended
}

// await waits until the server says where it listens.
func (s *Server) await() {
	s.t.Helper()
	ports := s.file(fmt.Sprintf("%s_%d.ports", filepath.Base(s.cmd.Path), s.cmd.Process.Pid))
	for end := time.Now().Add(startLimit); s.URL == ""; {
		s.URL = read(s.t, ports)
		select {
		case <-s.ended:
			printed, _ := os.ReadFile(s.file("printed")) // what there is of it
			log, _ := os.ReadFile(s.file("log"))
			s.t.Fatalf("nats-server has ended: %s\n%s", printed, log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.t.Fatal("nats-server does not say where it listens")
		}
	}
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
