package tool

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
)

// Progress is the state of a command that a call waits for.
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

// WithProgress returns a context in which Exec, and a wait of Process, call show
// periodically while they wait. They call it from one goroutine, which ends before they
// return.
func WithProgress(ctx context.Context, every time.Duration, show func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, progressWatch{every, show})
}

// Watch periodically passes the progress from look to the function that WithProgress put
// into ctx, until stop is called. It is for tools that run elsewhere.
func Watch(ctx context.Context, look func(context.Context) (p Progress, ok bool)) (stop func()) {
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
			case <-tick.C:
				if p, ok := look(ctx); ok && ctx.Err() == nil {
					w.show(p)
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// watch shows the progress of s until stop is called.
func watch(ctx context.Context, s *session.Session) (stop func()) {
	return Watch(ctx, func(ctx context.Context) (Progress, bool) {
		st := s.Status(ctx)
		tail, err := s.Tail(ctx, tailBytes)
		if err != nil {
			tail = "" // the result will report the error
		}
		return NewProgress(st, tail), true
	})
}

// NewProgress is the progress of a session; tail is the end of its output.
func NewProgress(st session.Status, tail string) Progress {
	return Progress{
		SessionID: st.ID, Elapsed: st.Duration(time.Now()), OutputBytes: st.OutputBytes,
		Tail: lastChars(words.StripANSI(tail), TailChars),
	}
}
