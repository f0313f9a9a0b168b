package natstest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// An Embedded is a message server with JetStream in the test's own program, without
// accounts. It can be stopped and started again, with what it has stored.
type Embedded struct {
	tb   testing.TB
	opts server.Options
	srv  *server.Server
}

// NewEmbedded starts a server, which stops with the test. Of opts the store's
// settings count.
func NewEmbedded(tb testing.TB, opts server.Options) *Embedded {
	tb.Helper()
	opts.Host, opts.Port, opts.StoreDir = "127.0.0.1", server.RANDOM_PORT, tb.TempDir()
	opts.JetStream, opts.NoSigs, opts.NoLog, opts.AlwaysEnableNonce = true, true, true, true
	s := &Embedded{tb: tb, opts: opts}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// Start starts a server that was stopped, at the address it had.
func (s *Embedded) Start() {
	s.tb.Helper()
	opts := s.opts // the server completes them
	var err error
	if s.srv, err = server.NewServer(&opts); err != nil {
		s.tb.Fatal(err)
	}
	s.srv.Start()
	if !s.srv.ReadyForConnections(10 * time.Second) {
		s.tb.Fatal("the message server does not start")
	}
	s.opts.Port = s.srv.Addr().(*net.TCPAddr).Port
}

// Address is where it listens.
func (s *Embedded) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.opts.Port) }

// Stop stops the server. What it has stored stays.
func (s *Embedded) Stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// Connect returns a connection that outlives stops of the server, and is closed
// with the test.
func (s *Embedded) Connect() *nats.Conn {
	s.tb.Helper()
	conn, err := nats.Connect("nats://"+s.Address(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(conn.Close)
	return conn
}
