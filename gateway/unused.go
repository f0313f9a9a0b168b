package gateway

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// unusedConns are connections over which no request has come. http.Server.Shutdown
// waits for those that are younger than five seconds.
type unusedConns struct {
	mu    sync.Mutex
	since map[net.Conn]time.Time
}

// requestDue is how long after it was made a connection is given for its request when
// the gateway stops.
const requestDue = 200 * time.Millisecond

// note is for http.Server.ConnState.
func (u *unusedConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.since[conn] = time.Now()
	} else {
		delete(u.since, conn)
	}
}

// closing closes them, until it is stopped.
func (u *unusedConns) closing() (stop func()) {
	done := make(chan struct{})
	var owned sync.WaitGroup
	owned.Go(func() {
		every := time.NewTicker(requestDue / 4)
		defer every.Stop()
		for {
			u.close()
			select {
			case <-every.C:
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		owned.Wait()
	}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn, since := range u.since {
		if time.Since(since) >= requestDue {
			_ = conn.Close() // nothing was asked over it
			delete(u.since, conn)
		}
	}
}
