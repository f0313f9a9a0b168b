package fabric_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/test/linktest"
)

// Close returns when no message is handled, and none is after it, also if many
// wait or the connection is gone.
func TestListenerClose(t *testing.T) {
	for name, gone := range map[string]bool{"connected": false, "connection closed": true} {
		t.Run(name, func(t *testing.T) {
			server, err := broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			conn, err := server.Connect()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()

			begun, release := make(chan struct{}), make(chan struct{})
			handled := 0 // by the listener alone, until it is closed
			l, err := linktest.Over(t, conn).Listen("subject", 100, 1<<20, func(*nats.Msg) {
				if handled++; handled == 1 {
					close(begun)
					<-release
				}
				handled++
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if err := conn.Publish("subject", nil); err != nil {
					t.Fatal(err)
				}
			}
			<-begun
			if gone {
				conn.Close()
			}
			closed := make(chan error)
			go func() { closed <- l.Close() }()
			select {
			case err := <-closed:
				t.Fatalf("closed while a message is handled: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			close(release)
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if handled%2 != 0 {
				t.Error("closed while a message is handled")
			}
		})
	}
}
