package nodeexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// stuckPort is the executor of a node with a port that takes nothing until it is let,
// whatever the deadline.
type stuckPort struct {
	*fakeexec.Executor
	conn net.Conn
	let  chan struct{}
}

func (x stuckPort) DialPort(context.Context, string, int) (net.Conn, error) {
	return stuckConn{x.conn.(*net.TCPConn), x.let}, nil
}

type stuckConn struct {
	*net.TCPConn
	let chan struct{}
}

func (c stuckConn) SetWriteDeadline(time.Time) error { return nil }

func (c stuckConn) Write(b []byte) (int, error) {
	<-c.let
	return c.TCPConn.Write(b)
}

// What may have arrived is not written again because another deadline was set.
func TestPortWritesOnce(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	x := stuckPort{Executor: &fakeexec.Executor{}, let: make(chan struct{})}
	if x.conn, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	t.Cleanup(func() { _ = x.Close() })
	r.open()
	r.serve(x)
	conn, err := r.node().(*nodeexec.Node).DialPort(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	data := patternOf(1000)
	wrote := make(chan error, 1)
	go func() { _, err := conn.Write(data); wrote <- err }()
	time.Sleep(200 * time.Millisecond)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Hour))
	select { // the node does not say for 5 s how much it has written
	case err = <-wrote:
		if !errors.Is(err, corral.ErrLost) {
			t.Errorf("Write: %v", err)
		}
		close(x.let)
	case <-time.After(7 * time.Second):
		close(x.let)
		t.Errorf("Write goes on: %v", <-wrote)
	}
	got := make([]byte, len(data))
	if _, err := io.ReadFull(there, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("not all has arrived: %v", err)
	}
	if err := conn.(half).CloseWrite(); err != nil {
		t.Error(err)
	}
	if more, err := io.ReadAll(there); err != nil || len(more) > 0 {
		t.Errorf("%d bytes have arrived twice: %v", len(more), err)
	}
	_ = conn.Close()
}
