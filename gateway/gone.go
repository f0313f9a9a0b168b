package gateway

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
)

// lookEvery is how often it is looked whether a client that waits for an answer is
// still there.
const lookEvery = time.Second

// errGone ends what is done for a client that is not there any more.
var errGone = corral.Errorf(corral.ErrUnavailable, "", "the client has closed the connection")

type connKey struct{}

// ConnContext is for http.Server.ConnContext of a server of one's own: by it the
// Server sees in any case when a client closes its connection. Serve sets it.
func (s *Server) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// whilePresent is the context of a request that may be answered late. It also ends
// when the client closes its side of the connection.
//
// net/http notices that only as long as nothing else comes from the client. After one
// byte behind the request, or with a body that is not read, it does not look any more
// (it reads one byte ahead). So the kernel is asked as well. It is not asked while a
// body is still read: a client may send all of it and go.
func whilePresent(r *http.Request) (context.Context, func()) {
	ctx := r.Context()
	inner := ctx.Value(connKey{})
	if secure, ok := inner.(interface{ NetConn() net.Conn }); ok { // tls.Conn
		inner = secure.NetConn()
	}
	conn, ok := inner.(syscall.Conn)
	if !ok {
		return ctx, func() {}
	}
	raw, err := conn.SyscallConn()
	if err != nil { // closed: net/http knows
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var looks *time.Timer
	looking := make(chan struct{}) // until looks is set
	looks = time.AfterFunc(lookEvery, func() {
		<-looking
		gone := false
		switch err := raw.Control(func(fd uintptr) { gone = hungUp(fd) }); {
		case err != nil || gone:
			cancel(errGone)
		case ctx.Err() == nil:
			looks.Reset(lookEvery)
		}
	})
	close(looking)
	return ctx, func() {
		cancel(nil) // before Stop: what is looking then does not look again
		looks.Stop()
	}
}
