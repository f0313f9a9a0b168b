package fabric_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// A message server that does not let the client in for a while, as when its
// configuration is changed, does not end the connection for ever.
func TestConnectsAfterRefusals(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const refusals = 3
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "INFO {\"server_id\":\"s\",\"version\":\"2.10.0\",\"max_payload\":65536,\"headers\":true}\r\n")
			lines := bufio.NewScanner(conn)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "PING") {
			}
			if n >= 1 && n <= refusals {
				fmt.Fprint(conn, "-ERR 'Authorization Violation'\r\n")
				conn.Close()
				continue
			}
			fmt.Fprint(conn, "PONG\r\n")
			if n == 0 { // the first connection is cut
				time.Sleep(50 * time.Millisecond)
				conn.Close()
			} else {
				defer conn.Close()
			}
		}
	}()
	conn, err := nats.Connect("nats://"+l.Addr().String(), append(fabric.ConnectOptions(nil), nats.ReconnectJitter(0, 0))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := time.Now().Add(20 * time.Second); conn.Stats().Reconnects <= refusals || !conn.IsConnected(); time.Sleep(5 * time.Millisecond) {
		if conn.IsClosed() || time.Now().After(end) {
			t.Fatalf("it is %v: %v", conn.Status(), conn.LastError())
		}
	}
}
