package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func serveLogged(t *testing.T) (*Server, *logtest.Log) {
	t.Helper()
	l := &logtest.Log{}
	s, err := Start(Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(l, nil)),
		Authorize: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if text := l.String(); text != "" {
		t.Errorf("to start is nothing to warn of: %s", text)
	}
	return s, l
}

// raw is a connection with TLS in which nothing was said yet.
func raw(t *testing.T, address net.Addr) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// What is no node's request for a WebSocket gets none, and the log says so.
func TestWebSocketNoise(t *testing.T) {
	s, l := serveLogged(t)
	const upgrade = "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	for request, want := range map[string]struct{ answer, logged string }{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                               {"400", "invalid value for header 'Upgrade'"},
		"POST / HTTP/1.1\r\n" + upgrade:                                   {"405", "request method must be GET"},
		"GET /mqtt HTTP/1.1\r\n" + upgrade:                                {"404", "mqtt websocket endpoint not enabled"},
		"GET /leafnode HTTP/1.1\r\n" + upgrade:                            {"101", "Not configured to accept leaf node"},
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n": {"431", ""},
		"PUB x 0\r\n\r\n":                                                 {"400", ""},
	} {
		c := raw(t, s.WebSocketAddr())
		go func() { _, _ = c.Write([]byte(request)) }() // it may be cut off
		answer := make([]byte, 20)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := io.ReadAtLeast(c, answer, 12)
		if want.answer != "" && (err != nil || !strings.Contains(string(answer[:n]), want.answer)) {
			t.Errorf("%.40q: %q, %v", request, answer[:n], err)
		}
		_ = c.Close()
		for end := time.Now().Add(5 * time.Second); want.answer != "" && !strings.Contains(l.String(), want.logged); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q is not in the log:\n%s", want.logged, l)
			}
		}
	}
}

// A client that sends nothing is cut off.
func TestSilence(t *testing.T) {
	s, _ := serveLogged(t)
	plain := func(a net.Addr) net.Conn {
		c, err := net.Dial("tcp", a.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for name, c := range map[string]net.Conn{
		"before TLS": plain(s.Addr()), "before TLS, of a WebSocket": plain(s.WebSocketAddr()),
		"after TLS": raw(t, s.Addr()), "after TLS, of a WebSocket": raw(t, s.WebSocketAddr()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_ = c.SetReadDeadline(time.Now().Add(4 * helloLimit))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open")
			}
		})
	}
}

// However many connections are refused, they do not fill the log, which says how
// many lines it does without.
func TestLogIsBounded(t *testing.T) {
	s, l := serveLogged(t)
	key, public := natstest.NewKey(t)
	begun := time.Now()
	for range 150 {
		c := raw(t, s.Addr())
		// The nonce is signed by nobody.
		if _, err := fmt.Fprintf(c, "CONNECT {\"nkey\":%q,\"sig\":\"AAAA\"}\r\nPING\r\n", public); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // until it is cut off
		_ = c.Close()
	}
	if n, most := strings.Count(l.String(), "\n"), linesBurst+linesRate*(int(time.Since(begun).Seconds())+1); n > most {
		t.Errorf("%d lines, more than %d:\n%s", n, most, l)
	}
	if !strings.Contains(l.String(), "refused a connection without a valid key") {
		t.Errorf("the log is\n%s", l)
	}
	c := connect(t, transports["TLS"](s), s, key)
	for end := time.Now().Add(10 * time.Second); !strings.Contains(l.String(), "left_out="); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log is\n%s", l)
		}
		if err := errors.Join(c.Publish(fabric.HelloSubject("n1"), nil), c.Flush()); err != nil {
			t.Fatal(err)
		}
	}
}
