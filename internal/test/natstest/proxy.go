package natstest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral/internal/state/selfcert"
)

// A Proxy carries connections to a message server, which may be in the test's own
// program and knows no TLS, and can say more to the clients than the server does.
type Proxy struct {
	URL  string // tls://127.0.0.1:PORT; TLS comes first
	Cert string // the SHA-256 of its certificate, in hexadecimal

	mu      sync.Mutex
	clients map[*client]struct{}
}

type client struct {
	net.Conn
	mu sync.Mutex // held while a whole message is written
}

// NewProxy starts a proxy, which stops with the test.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	cert, err := selfcert.Load(filepath.Join(tb.TempDir(), "proxy.pem"), "the proxy", "")
	if err != nil {
		tb.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{URL: "tls://" + l.Addr().String(), Cert: selfcert.Fingerprint(cert.Certificate[0]), clients: map[*client]struct{}{}}
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			owned.Go(func() { p.carry(&client{Conn: conn}, server) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.clients {
			_ = c.Close()
		}
		p.mu.Unlock()
		owned.Wait()
	})
	return p
}

// Say sends a line to every client, as if the server did, and returns how many there
// are.
func (p *Proxy) Say(line string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		c.mu.Lock()
		_, _ = io.WriteString(c, line+"\r\n") // it may be gone
		c.mu.Unlock()
	}
	return len(p.clients)
}

func (p *Proxy) carry(c *client, address string) {
	defer c.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.clients[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.clients, c)
		p.mu.Unlock()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	for r := bufio.NewReader(server); err == nil; {
		var m []byte
		if m, err = message(r); err == nil {
			c.mu.Lock()
			_, err = c.Write(m)
			c.mu.Unlock()
		}
	}
	_ = c.Close()
	<-done
}

// message reads what the server sends as a whole: a line, with the payload that it
// announces.
func message(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if rest, ok := bytes.CutPrefix(line, []byte("INFO {")); ok { // the proxy's own
		return append([]byte(`INFO {"tls_required":true,`), rest...), nil
	}
	words := strings.Fields(string(line))
	if len(words) == 0 || words[0] != "MSG" && words[0] != "HMSG" {
		return line, nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return nil, err
	}
	payload := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(r, payload)
	return append(line, payload...), err
}
