package wardenexec

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// An end that a kill or a full disk cut short within the record says nothing: the
// warden is asked, which keeps what was not acknowledged.
func TestCutRecord(t *testing.T) {
	dir := t.TempDir()
	for _, cut := range []string{"E x", "E x ", `E x {"info":{"id":"x"},"ex`} {
		if err := os.WriteFile(filepath.Join(dir, journalName), []byte("S x 1\n\n"+cut+"\nS y 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRecords(dir, false, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("after %q: %v", cut, err)
		}
		started, rec, err := r.find("x")
		if !started || rec != nil || err != nil {
			t.Errorf("after %q: %v %v %v, want that it was started and no more", cut, started, rec, err)
		}
		r.close()
	}
}

// Whoever looks for a process while the answer to its start is still to come is
// told to come again, and not that it is lost: it may be about to run.
func TestAttachBeforeTheAnswer(t *testing.T) {
	asked := make(chan *wire.Message, 1)
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Start {
			asked <- m
			return
		}
		f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: wire.CodeNotFound})
	})
	e := fakeExecutor(t, f.connect)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Start(ctx, corral.Command{ID: "x", Args: []string{"x"}}); !errors.Is(err, corral.ErrLost) {
		t.Fatalf("start: %v", err)
	}
	if _, err := e.Attach(context.Background(), "x"); !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrLost) {
		t.Errorf("before the answer: %v", err)
	}
	m := <-asked
	f.send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: wire.CodeUnavailable})
	pollUntil(t, "the answer came", func() bool {
		_, err := e.Attach(context.Background(), "x")
		return errors.Is(err, corral.ErrNotFound)
	})
}
