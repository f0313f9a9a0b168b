package tool

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral/internal/words"
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

// Watch shows the progress that look finds to the function that WithProgress gave to
// ctx, until stop is called. It is for tools that run elsewhere.
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
			tail = "" // the result says what is wrong with the output
		}
		return NewProgress(st, tail), true
	})
}

// NewProgress is a look at a session, with some of the end of its output.
func NewProgress(st session.Status, tail string) Progress {
	return Progress{
		SessionID: st.ID, Elapsed: st.Duration(time.Now()), OutputBytes: st.OutputBytes,
		Tail: lastChars(words.StripANSI(tail), TailChars),
	}
}
