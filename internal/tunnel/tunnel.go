// Package tunnel joins two connections: what one side sends, the other gets, and the end
// of it as well.
//
// Each direction ends by itself (half-close), so that a program can send all that it
// has, say that this was all, and then read the answer. The package knows nothing of
// what is sent, and sets no time limit.
package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A Conn can end what it sends while it still receives.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// piece is how much is moved at a time, in bytes.
const piece = 64 << 10

// lookEvery is how often Join looks whether a side that sends nothing more is still
// there. A variable for tests.
var lookEvery = time.Second

var buffers = sync.Pool{New: func() any { return new([piece]byte) }}

// Join moves bytes both ways until both directions have ended, one has failed, or ctx
// has ended. Both connections are closed then. The error is nil if both directions
// ended by themselves, and else why the first one did not.
//
// A side that has closed the whole connection looks like one that ended only what it
// sends, until something is sent to it. So the kernel is asked, where it can tell.
func Join(ctx context.Context, a, b Conn) error {
	var once sync.Once
	closeBoth := func() {
		once.Do(func() {
			_ = a.Close() // nothing more is expected of them
			_ = b.Close()
		})
	}
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()

	type end struct {
		source Conn
		err    error
	}
	ends := make(chan end, 2)
	move := func(to, from Conn) { ends <- end{from, forward(to, from)} }
	go move(a, b)
	go move(b, a)

	first := <-ends
	if first.err != nil {
		closeBoth()
		<-ends
		return cause(ctx, first.err)
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case second := <-ends:
			return cause(ctx, second.err)
		case <-look.C:
			if gone(first.source) {
				closeBoth()
				if second := <-ends; second.err == nil {
					return nil
				}
				return cause(ctx, errGone)
			}
		}
	}
}

var errGone = errors.New("one side has closed the connection")

func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// forward moves bytes until from ends, and then ends to.
func forward(to, from Conn) error {
	buf := buffers.Get().(*[piece]byte)
	defer buffers.Put(buf)
	// Without their other methods: these would make buffers of their own.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf[:])
	if err != nil {
		return err
	}
	return to.CloseWrite()
}
