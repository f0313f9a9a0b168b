package client_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/state/selfcert"
	"github.com/corral-exec/corral/internal/test/sumserver"
)

// portsOfMachine has the ports of the sandbox "box" of the agent "main" be those of this
// machine.
func portsOfMachine(ctx context.Context, agent, name string, port int) (net.Conn, error) {
	if agent != "main" || name != "box" {
		return nil, corral.Errorf(corral.ErrNotFound, "", "the agent %s has no sandbox %s", agent, name)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return nil, corral.Errorf(corral.ErrNotListening, "start it", "nothing listens on port %d", port)
	}
	return conn, nil
}

func newPortsRig(t *testing.T) *rig {
	t.Helper()
	g := newRig(t)
	g.away()
	g.dialPort = portsOfMachine
	g.back()
	return g
}

// sums sends, ends what it sends, and demands the right answer.
func sums(t *testing.T, c *client.Client, port int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	conn, err := c.DialPort(ctx, "box", port)
	if err != nil {
		t.Error(err)
		cancel()
		return
	}
	cancel() // which bounds the connecting alone
	defer conn.Close()
	sum := sha256.New()
	if _, err := io.Copy(conn, io.TeeReader(io.LimitReader(rand.Reader, 1<<20), sum)); err != nil {
		t.Error(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("%s, %v; want %x", got, err, sum.Sum(nil))
	}
}

func TestDialPort(t *testing.T) {
	g := newPortsRig(t)
	port := sumserver.Port(t)
	sums(t, g.client(nil), port)

	server, err := gateway.New(gateway.Config{Sessions: g.sessions, DialPort: portsOfMachine, Token: strings.Repeat("t", 32)})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server)
	defer front.Close()
	sums(t, g.client(func(o *client.Options) { o.Socket, o.URL, o.Token = "", front.URL, strings.Repeat("t", 32) }), port)

	// TLS, of a server that is not trusted.
	secure := httptest.NewUnstartedServer(server)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	c := g.client(func(o *client.Options) { o.Socket, o.URL, o.Token = "", secure.URL, strings.Repeat("t", 32) })
	if _, err := c.DialPort(t.Context(), "box", port); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody's: %v", err)
	}
	// Of another one than is known: no waiting helps.
	c = g.client(func(o *client.Options) {
		o.Socket, o.URL, o.Token, o.Fingerprint, o.Retry = "", secure.URL, strings.Repeat("t", 32), strings.Repeat("00", 32), time.Hour
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Sessions(ctx, false); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
		t.Errorf("another certificate: %v", err)
	}
	// And of one that is known by its fingerprint, also as openssl prints it.
	sums(t, g.client(func(o *client.Options) {
		o.Socket, o.URL, o.Token = "", secure.URL, strings.Repeat("t", 32)
		known := selfcert.Fingerprint(secure.Certificate().Raw)
		o.Fingerprint = strings.ToUpper(known[:2] + ":" + known[2:])
	}), port)
}

func TestDialPortErrors(t *testing.T) {
	g := newPortsRig(t)
	c := g.client(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	free := l.Addr().(*net.TCPAddr).Port
	if _, err := c.DialPort(t.Context(), "box", free); !errors.Is(err, corral.ErrNotListening) || corral.Hint(err) != "start it" {
		t.Errorf("nothing listens: %v", err)
	}
	if _, err := c.DialPort(t.Context(), "other", free); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("no sandbox: %v", err)
	}
	if _, err := c.DialPort(t.Context(), "box", 0); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("no port: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.DialPort(cancelled, "box", free); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	// What takes the connection and says nothing.
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	to := func(url string) *client.Client {
		return g.client(func(o *client.Options) { o.Socket, o.URL = "", url })
	}
	if _, err := to("http://"+deaf.Addr().String()).DialPort(short, "box", 80); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a gateway that does not answer: %v", err)
	}
	// What is no gateway.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	defer other.Close()
	if _, err := to(other.URL).DialPort(t.Context(), "box", 80); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another server: %v", err)
	}
	g.away()
	if _, err := c.DialPort(t.Context(), "box", 80); !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" {
		t.Errorf("no gateway: %v", err)
	}
}

// A server whose answer has no end fills no memory.
func TestDialPortEndlessAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan int64, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			sent <- 0
			return
		}
		defer conn.Close()
		line := []byte("X: " + strings.Repeat("x", 1000) + "\r\n")
		n, _ := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n") // Write says what is wrong
		for total := int64(n); ; total += int64(n) {
			if n, err = conn.Write(line); err != nil || total > 256<<20 {
				sent <- total
				return
			}
		}
	}()
	c, err := to(t, client.Options{URL: "http://" + l.Addr().String()}).DialPort(t.Context(), "box", 80)
	if n := <-sent; !errors.Is(err, corral.ErrUnavailable) || n > 64<<20 {
		t.Errorf("after %d bytes: %v, %v", n, c, err)
	}
}
