package wardenexec

import (
	"context"
	"log/slog"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// All executors of a program have one watcher, and so one thread; it ends with the last.
func TestOneWatcher(t *testing.T) {
	begin := func() *Executor {
		e, err := New(Options{
			Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
			Connect: func(context.Context, bool) (wire.Conn, error) { return nil, context.Canceled },
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first, second := begin(), begin()
	if first.watcher != second.watcher {
		t.Error("each has its own")
	}
	for i, e := range []*Executor{first, second} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if closed := first.watcher.closed; closed != (i == 1) {
			t.Errorf("closed after %d: %t", i+1, closed)
		}
		_ = e.Close() // once more changes nothing
	}
	third := begin()
	if third.watcher == first.watcher {
		t.Error("a watcher that has ended is used")
	}
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}
