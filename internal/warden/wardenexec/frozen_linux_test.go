package wardenexec

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// Who waits for a warden that is frozen is told so, however long they would wait; and if the
// place is only slow, or goes on for them, they get their answer.
func TestFrozen(t *testing.T) {
	defer func(was time.Duration) { late = was }(late)
	late = 20 * time.Millisecond
	held := make(chan *wire.Message, 10)
	f := newFake(t, func(_ *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		held <- m
	})
	e := fakeExecutor(t, func(bool) (wire.Conn, error) { return f.gw, nil })
	if _, err := e.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	paused := corral.Errorf(corral.ErrUnavailable, "resume it", "it is paused")
	e.opts.Frozen = func(context.Context) error { return paused }
	_, err := e.Start(t.Context(), corral.Command{ID: "x", Args: []string{"x"}})
	if !errors.Is(err, corral.ErrLost) || !errors.Is(err, paused) || corral.Hint(err) != "resume it" {
		t.Errorf("start: %v", err)
	}
	if err := newProcess(e, "y").Signal(t.Context(), corral.SIGTERM); !errors.Is(err, paused) || errors.Is(err, context.Canceled) {
		t.Errorf("signal: %v", err)
	}
	for len(held) > 0 {
		<-held
	}
	var asked atomic.Int32
	e.opts.Frozen = func(context.Context) error {
		if asked.Add(1) == 3 {
			f.send(&wire.Message{Type: wire.OK, Req: (<-held).Req})
		}
		return nil
	}
	if err := newProcess(e, "y").Signal(t.Context(), corral.SIGTERM); err != nil || asked.Load() < 3 {
		t.Errorf("signal to what goes on: %v, asked %d times", err, asked.Load())
	}
}
