package warden

import (
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A command that is being started while the supervisor is closed is killed as well.
func TestCloseWhileStarting(t *testing.T) {
	s, gw, theirs := unserved(t)
	go func() { _ = s.Serve(theirs) }() // it ends with Close
	ask(t, gw, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version})
	s.forking.Lock() // the next start gets as far as this
	say(t, gw, startSleep(2, "x"))
	for beingMade(s) == 0 {
		time.Sleep(time.Millisecond)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	time.Sleep(50 * time.Millisecond)
	s.forking.Unlock()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("it is not closed")
		<-closed
	}
}
