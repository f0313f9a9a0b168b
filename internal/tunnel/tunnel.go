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

// How much is moved at a time where the kernel does not move it, in bytes: a small piece,
// which a connection has while nothing comes, and a large one as long as those are full.
const (
	smallPiece = 32 << 10
	largePiece = 512 << 10
)

var buffers = sync.Pool{New: func() any { return new([largePiece]byte) }}

// An End is a connection to join. Early is what was read from it already.
type End struct {
	Conn
	Early []byte
	Moved func(bytes int64) // told how much came from it, when that has ended; may be nil
}

// lookEvery is how often Join looks whether a side that sends nothing more is still
// there. A variable for tests.
var lookEvery = time.Second

// Join moves bytes both ways until both directions have ended, one has failed, or ctx
// has ended. Both connections are closed then. The error is nil if both directions
// ended by themselves, and else why the first one did not.
//
// A side that has closed the whole connection looks like one that ended only what it
// sends, until something is sent to it. So the kernel is asked, where it can tell.
//
// Between sockets the kernel of Linux moves them (splice); for that each Conn has to be a
// syscall.Conn.
func Join(ctx context.Context, a, b End) error {
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
	move := func(to, from End) { ends <- end{from.Conn, forward(to.Conn, from)} }
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
func forward(to Conn, from End) error {
	var moved int64
	var err error
	if len(from.Early) > 0 {
		var n int
		n, err = to.Write(from.Early)
		moved = int64(n)
	}
	if err == nil {
		var rest int64
		rest, err = transfer(to, from.Conn)
		moved += rest
	}
	if from.Moved != nil {
		from.Moved(moved)
	}
	if err != nil {
		return err
	}
	return to.CloseWrite()
}

// transfer moves bytes until from ends.
func transfer(to, from Conn) (int64, error) {
	if moved, handled, err := splice(to, from); handled {
		return moved, err
	}
	return relay(to, from)
}

// relay copies bytes until from ends.
func relay(to io.Writer, from io.Reader) (moved int64, err error) {
	small := make([]byte, smallPiece)
	piece := small
	var large *[largePiece]byte
	leave := func() {
		if large != nil {
			buffers.Put(large)
			large, piece = nil, small
		}
	}
	defer leave()
	for {
		n, err := from.Read(piece)
		if n > 0 {
			m, err := to.Write(piece[:n])
			moved += int64(m)
			if err != nil {
				return moved, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return moved, nil
		case err != nil:
			return moved, err
		case n < len(small):
			leave()
		case n == len(piece) && large == nil:
			large = buffers.Get().(*[largePiece]byte)
			piece = large[:]
		}
	}
}
