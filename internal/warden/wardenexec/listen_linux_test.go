package wardenexec

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// A warden that comes after somebody has given up is there for who waits next.
func TestAcceptAgain(t *testing.T) {
	dir := testdir.New(t)
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	anybody := func(*unix.Ucred) error { return nil }
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := l.Accept(ctx, anybody); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody came: %v", err)
		}
		cancel()
	}
	theirs, err := warden.Dial(dir, l.name)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ours, err := l.Accept(ctx, anybody)
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.Close(); err != nil {
		t.Error(err)
	}
}

// A connection that comes as the wait for it ends is not lost: a warden dials once.
func TestAcceptLosesNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := func(*unix.Ucred) error { return nil }
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		accepted := make(chan *wire.Packets, 1)
		go func() {
			conn, _ := l.Accept(ctx, all) // ctx ends
			accepted <- conn
		}()
		time.Sleep(20 * time.Microsecond)
		go cancel()
		dialled, err := warden.Dial(dir, l.name)
		if err != nil {
			t.Fatal(err)
		}
		conn := <-accepted
		if conn == nil {
			again, done := context.WithTimeout(t.Context(), time.Second)
			conn, err = l.Accept(again, all)
			done()
		}
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		dialled.Close()
	}
}
