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

func TestKeyed(t *testing.T) {
	var k Keyed[string]
	release, err := k.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := k.Take(t.Context(), "b")
	if err != nil {
		t.Fatal("another key waits:", err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Take(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal("the lock was given twice:", err)
	}
	next := make(chan func(), 1)
	go func() {
		release, err := k.Take(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		next <- release
	}()
	release()
	(<-next)()
	if len(k.held) != 0 {
		t.Errorf("%d locks are kept", len(k.held))
	}
}
