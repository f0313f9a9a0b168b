package execdriver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/streamexec"
)

func TestExecDriverInput(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	cmd := command("cat")
	cmd.Stdin = true
	p := mustStart(t, d, cmd)
	text := strings.Repeat("x", 3*streamexec.InputQueue+1)
	for _, part := range []string{text[:1], text[1:]} {
		if n, err := p.Write(t.Context(), []byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	for range 2 {
		if err := p.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Write(t.Context(), []byte("late")); n != 0 || !errors.Is(err, corral.ErrStdinClosed) && !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Write after CloseStdin: %d, %v", n, err)
	}
	mustWait(t, p)
	if got := strings.ReplaceAll(output(t, p), "<1>", ""); got != text {
		t.Errorf("%d bytes, not %d", len(got), len(text))
	}
}

func TestExecDriverNoInput(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	p := mustStart(t, d, command("sleep"))
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, corral.ErrStdinClosed) {
		t.Errorf("Write: %v", err)
	}
}

// A Write that is given up has handed over what it says, and holds no more than
// the queue.
func TestExecDriverInputGivenUp(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	cmd := command("sleep")
	cmd.Stdin = true
	p := mustStart(t, d, cmd)
	for _, want := range []int{streamexec.InputQueue, 0} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		n, err := p.Write(ctx, make([]byte, 10<<20))
		cancel()
		if n != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	held := make(chan struct{})
	go func() {
		defer close(held)
		_, _ = p.Write(t.Context(), make([]byte, 1))
	}()
	time.Sleep(10 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n, err := p.Write(ctx, []byte("x")); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Write behind another: %d, %v", n, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	<-held
}

func TestExecDriverInputDeaf(t *testing.T) {
	d := fakeDriver(t, &fakeEngine{}, t.TempDir())
	cmd := command("deaf")
	cmd.Stdin = true
	p := mustStart(t, d, cmd)
	end := time.Now().Add(5 * time.Second)
	for {
		_, err := p.Write(t.Context(), []byte("x"))
		if errors.Is(err, corral.ErrEnded) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("Write: %v", err)
		}
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Errorf("CloseStdin: %v", err)
	}
}
