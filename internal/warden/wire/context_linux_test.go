package wire

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// long is far more than a cut call takes, and far less than sendLimit.
const long = 4 * time.Second

func cutAfter(t *testing.T, send func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := send(ctx)
	if took := time.Since(begun); took > long {
		t.Errorf("it took %v", took)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cut: %v", err)
	}
	return err
}

// A peer that takes nothing holds up nobody beyond their context: what was not
// begun is not sent, what was begun is sent to its end, and the connection goes on.
func TestSendContext(t *testing.T) {
	a, b, err := PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	fill := &Message{Type: Output, ID: "fill", Data: make([]byte, maxPacket/2)}
	filled := 0
	for {
		err := cutAfter(t, func(ctx context.Context) error { return a.SendContext(ctx, fill) })
		if errors.Is(err, ErrUnsent) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		filled++
	}
	if _, _, err := b.Recv(); err != nil { // room for a packet, and no more
		t.Fatal(err)
	}
	large := &Message{Type: Output, ID: "large", Data: make([]byte, 40*maxPacket)}
	if err := cutAfter(t, func(ctx context.Context) error { return a.SendContext(ctx, large) }); !errors.Is(err, ErrSending) {
		t.Fatalf("a message of several packets: %v", err)
	}
	// Also the next one, which waits for its turn.
	if err := cutAfter(t, func(ctx context.Context) error { return a.SendContext(ctx, fill) }); !errors.Is(err, ErrUnsent) {
		t.Fatalf("behind it: %v", err)
	}
	last := make(chan error, 1)
	go func() { last <- a.Send(&Message{Type: OK, ID: "last"}) }()
	for i := range filled + 1 {
		m, _, err := b.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want := "fill"
		switch i {
		case filled - 1:
			want = "large"
		case filled:
			want = "last"
		}
		if m.ID != want {
			t.Fatalf("message %d is %q, not %q", i, m.ID, want)
		}
	}
	if err := <-last; err != nil {
		t.Error(err)
	}
}

// Frames that have begun are written to their end.
func TestSendContextOverAStream(t *testing.T) {
	r, w := io.Pipe()
	a, b := NewFrames(nil, w, w), NewFrames(r, nil, r)
	if err := cutAfter(t, func(ctx context.Context) error { return a.SendContext(ctx, &Message{Type: OK, ID: "one"}) }); !errors.Is(err, ErrSending) {
		t.Fatalf("%v", err)
	}
	if err := cutAfter(t, func(ctx context.Context) error { return a.SendContext(ctx, &Message{Type: OK, ID: "two"}) }); !errors.Is(err, ErrUnsent) {
		t.Fatalf("%v", err)
	}
	sent := make(chan error, 1)
	go func() { sent <- a.SendContext(t.Context(), &Message{Type: OK, ID: "three"}) }()
	for _, want := range []string{"one", "three"} {
		if m, _, err := b.Recv(); err != nil || m.ID != want {
			t.Fatalf("%+v, %v; want %s", m, err, want)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
