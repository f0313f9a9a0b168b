package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	lookEvery = 10 * time.Millisecond
	goleak.VerifyTestMain(m)
}

// pair returns both ends of a connection.
func pair(t *testing.T, network string) (near, far Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(Conn), b.(Conn)
}

// joined returns the far ends of two connections that are joined.
func joined(t *testing.T, ctx context.Context, network string) (client, server Conn, end chan error) {
	t.Helper()
	client, a := pair(t, network)
	server, b := pair(t, "tcp")
	end = make(chan error, 1)
	go func() { end <- Join(ctx, End{Conn: a}, End{Conn: b}) }()
	return client, server, end
}

func ended(t *testing.T, end chan error) error {
	t.Helper()
	select {
	case err := <-end:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the connections stay joined")
		return nil
	}
}

// What was sent arrives, then its end, and then the answer, either way round.
func TestHalfClose(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		client, server, end := joined(t, t.Context(), network)
		for _, turn := range [][2]Conn{{client, server}, {server, client}} {
			text := strings.Repeat("0123456789abcdef", 1<<16)
			go func() {
				_, _ = io.WriteString(turn[0], text)
				_ = turn[0].CloseWrite()
			}()
			if got, err := io.ReadAll(turn[1]); err != nil || string(got) != text {
				t.Errorf("%s: %d bytes of %d, %v", network, len(got), len(text), err)
			}
			time.Sleep(3 * lookEvery) // nobody is taken to be gone
		}
		if err := ended(t, end); err != nil {
			t.Errorf("%s: %v", network, err)
		}
	}
}

func TestCutOff(t *testing.T) {
	client, server, end := joined(t, t.Context(), "tcp")
	if err := server.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	server.Close() // by a reset
	if _, err := io.ReadAll(client); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if err := ended(t, end); err == nil {
		t.Error("no error of a connection that was reset")
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	client, _, end = joined(t, ctx, "tcp")
	cancel(why)
	if err := ended(t, end); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still there")
	}
}
