package turn

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneAtATime(t *testing.T) {
	l, n := New(), 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := l.Take(t.Context()); err != nil {
				t.Error(err)
				return
			}
			n++ // the race detector looks
			l.Release()
		})
	}
	wg.Wait()
	if n != 50 {
		t.Errorf("%d", n)
	}
}

func TestContextBoundsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Take(ctx); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := l.Take(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Fatalf("held by another: %v after %v", err, time.Since(begun))
		}
		l.Release()
		if err := l.Take(ctx); err != nil {
			t.Errorf("free: %v", err)
		}
	})
}
