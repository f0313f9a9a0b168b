package foreground

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// crowded is a listener that has no file descriptor left for some connections.
type crowded struct {
	net.Listener
	left int
}

func (l *crowded) Accept() (net.Conn, error) {
	if l.left--; l.left >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// A lack of file descriptors passes, and ends no forward.
func TestAcceptWithoutDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	served := errors.New("served")
	ctx, end := context.WithCancelCause(ctx)
	err = Accept(ctx, []net.Listener{&crowded{l, 2}}, func(_ context.Context, _ net.Listener, conn net.Conn) error {
		end(served)
		return conn.Close()
	}, func(net.Listener, error) {})
	if !errors.Is(err, served) {
		t.Error(err)
	}
}
