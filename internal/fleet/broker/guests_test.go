package broker

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/test/natstest"
)

// patience is for how long a test waits for what is to happen soon.
const patience = 20 * time.Second

// Machines that are not paired take no place of a node, whether they say a word or not.
func TestGuests(t *testing.T) {
	const nodes, guests = 4, 6
	node, public := natstest.NewKey(t)
	s, err := Start(Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", maxNodes: nodes, maxGuests: guests,
		Authorize: func(k string) (string, bool) { return "n1", k == public },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	options, err := Pinned(s.Fingerprint(), node)
	if err != nil {
		t.Fatal(err)
	}
	own := connect(t, "tls://"+s.Addr().String(), s, node)
	for _, silent := range []bool{true, false} {
		for range nodes + 2*guests { // as many as there is room for
			if silent {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				continue
			}
			key, _ := natstest.NewKey(t)
			pinned, err := Pinned(s.Fingerprint(), key)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := nats.Connect("tls://"+s.Addr().String(), append(pinned, nats.NoReconnect())...); err == nil { // else there is no room now
				t.Cleanup(c.Close)
			}
		}
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			c, err := nats.Connect("tls://"+s.Addr().String(), options...)
			if err == nil {
				c.Close()
				break
			}
			if time.Since(begun) > 2*time.Second { // sooner than silent ones are cut anyway
				t.Fatalf("silent: %v: a node cannot connect: %v", silent, err)
			}
		}
		for end := time.Now().Add(patience); s.server.NumClients() > guests+1; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("silent: %v: %d connections", silent, s.server.NumClients())
			}
		}
	}
	if !own.IsConnected() || own.Stats().Reconnects != 0 {
		t.Error("a node was cut")
	}
}

// No key takes the places of the others.
func TestConnectionsOfOneKey(t *testing.T) {
	key, public := natstest.NewKey(t)
	other, otherPublic := natstest.NewKey(t)
	s := serve(t, t.TempDir(), func(k string) (string, bool) { return "n1", k == public || k == otherPublic })
	url := "tls://" + s.Addr().String()
	for range maxOfKey {
		connect(t, url, s, key)
	}
	pinned, err := Pinned(s.Fingerprint(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := nats.Connect(url, pinned...); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("one more: %v, %v", c, err)
	}
	connect(t, url, s, other)
}
