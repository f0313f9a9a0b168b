package tool

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
)

// Progress is a look at a command that a call waits for.
type Progress struct {
	SessionID   string
	Elapsed     time.Duration // since the command started
	OutputBytes int64         // written so far
	Tail        string        // the last TailChars characters of the output
}

type progressKey struct{}

type progressWatch struct {
	every time.Duration
	show  func(Progress)
}

// WithProgress has Exec and a wait of Process that get ctx call show every so
// often while they wait, from one goroutine that ends before they return.
func WithProgress(ctx context.Context, every time.Duration, show func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, progressWatch{every, show})
}

// watch shows the progress of s until stop is called.
func watch(ctx context.Context, s *session.Session) (stop func()) {
	w, ok := ctx.Value(progressKey{}).(progressWatch)
	if !ok || w.every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(w.every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				st := s.Status(ctx)
				tail, err := s.Tail(ctx, tailBytes)
				if err != nil {
					tail = "" // the result says what is wrong with the output
				}
				if ctx.Err() == nil {
					w.show(Progress{
						SessionID: st.ID, Elapsed: st.Duration(now), OutputBytes: st.OutputBytes,
						Tail: lastChars(corral.StripANSI(tail), TailChars),
					})
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
