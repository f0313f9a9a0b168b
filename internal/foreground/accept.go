package foreground

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// acceptPause is the time before the next attempt, when this program or the machine has
// no file descriptor left.
const acceptPause = 100 * time.Millisecond

// Accept has each connection to the listeners served until ctx ends, or no more can be
// accepted; then it closes the listeners, waits for the connections, and returns why.
// failed is told, one at a time, of connections whose serving failed before that.
func Accept(ctx context.Context, listeners []net.Listener, serve func(context.Context, net.Listener, net.Conn) error, failed func(net.Listener, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var said sync.Mutex
	var wg sync.WaitGroup
	for _, l := range listeners {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		wg.Go(func() {
			for {
				conn, err := l.Accept()
				if temporary := (interface{ Temporary() bool })(nil); errors.As(err, &temporary) && temporary.Temporary() { // as in net/http
					select {
					case <-time.After(acceptPause):
						continue
					case <-ctx.Done():
						return
					}
				}
				if err != nil {
					cancel(corral.Errorf(corral.ErrUnavailable, "", "cannot accept connections on %s: %w", l.Addr(), err))
					return
				}
				wg.Go(func() {
					if err := serve(ctx, l, conn); err != nil && ctx.Err() == nil {
						said.Lock()
						defer said.Unlock()
						failed(l, err)
					}
				})
			}
		})
	}
	<-ctx.Done()
	wg.Wait()
	return cmp.Or(context.Cause(ctx), ctx.Err())
}
