package broker

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// A port that is another one than the line says is an error that says so, and has
// nothing of what was answered there.
func TestWrongPort(t *testing.T) {
	s, err := Start(Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0",
		Authorize: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	other := greeter(t, "SSH-2.0-OpenSSH_9.2p1\r\n")
	for name, tc := range map[string]struct{ url, want string }{
		"WebSocket at the port for TCP": {"wss://" + s.Addr().String(), "what answers there takes connections by TCP, and no WebSockets"},
		"TCP at the port for WebSocket": {"tls://" + s.WebSocketAddr().String(), "it may take WebSockets alone, or be another program"},
		"TCP at another program":        {"tls://" + other, "another program"},
		"WebSocket at another program":  {"wss://" + other, "what answers there speaks no TLS, so that it is another program"},
	} {
		t.Run(name, func(t *testing.T) {
			key, _ := natstest.NewKey(t)
			_, err := Dial(tc.url, s.Fingerprint(), key, nats.Timeout(500*time.Millisecond))
			if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(corral.Hint(err), "corral nodes join") ||
				strings.Contains(err.Error(), "server_id") || strings.Contains(err.Error(), "SSH-2.0") {
				t.Errorf("%v (%s)", err, corral.Hint(err))
			}
		})
	}
}

// greeter is a server that sends a text to each client.
func greeter(t *testing.T, text string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			_, _ = c.Write([]byte(text)) // whoever connected may be gone
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}
