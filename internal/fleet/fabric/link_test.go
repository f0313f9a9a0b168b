package fabric_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// A server that sends an unknown error on every connection is asked less and less often,
// with the subscriptions each time, until the Link is closed.
func TestLinkGivenUpAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	subscribed := make(chan struct{}, 100)
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			owned.Go(func() {
				defer conn.Close()
				fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.9.0\",\"max_payload\":65536}\r\n")
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					switch line := lines.Text(); {
					case line == "PING":
						fmt.Fprint(conn, "PONG\r\n")
					case strings.HasPrefix(line, "SUB subject "):
						subscribed <- struct{}{}
						fmt.Fprint(conn, "-ERR 'whatever'\r\n")
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		owned.Wait()
	})

	var mu sync.Mutex
	var reasons []string
	link, err := fabric.Connect(t.Context(), func(o nats.Option) (*nats.Conn, error) {
		return nats.Connect("nats://"+l.Addr().String(), append(fabric.ConnectOptions(nil), o)...)
	}, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reasons = append(reasons, err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	connected, unwatch := link.Connected()
	defer unwatch()
	if _, err := link.Listen("subject", 10, 1<<10, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range 4 {
		<-subscribed
		<-connected
	}
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("4 new connections in %v", took)
	}
	link.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(reasons) < 4 || !strings.Contains(reasons[0], "whatever") {
		t.Errorf("%q", reasons)
	}
}

// A context that ends while the first connection is made leaves none.
func TestLinkNotWanted(t *testing.T) {
	b, err := broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var conn *nats.Conn
	link, err := fabric.Connect(ctx, func(nats.Option) (*nats.Conn, error) {
		defer cancel()
		conn, err = b.Connect()
		return conn, err
	}, func(error) {})
	if link != nil || !errors.Is(err, context.Canceled) || !conn.IsClosed() {
		t.Errorf("%v, %v", link, err)
	}
}
