package nodeexec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// A node that is not paired any more may still be connected, to a message server that is
// not the gateway's. It is sent nothing, and nothing that it sends counts.
func TestUnpairedIsSentNothing(t *testing.T) {
	f := newFleet(t)
	var mu sync.Mutex
	var asked []fakeexec.Op
	x := fake(t, func(op fakeexec.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, op)
		return nil
	})
	x.Programs["tick"] = func(o *fakeexec.IO) int {
		for n := 0; o.Context.Err() == nil; n++ {
			_, _ = fmt.Fprintln(o.Stdout, n) // it fails at the end
			time.Sleep(10 * time.Millisecond)
		}
		return 0
	}
	f.serve(gpu("n1"), x, 0)
	g, _ := f.gateway()
	f.await(g, 1)
	node, _, err := g.Select(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, node, corral.Command{Shell: "tick", Stdin: true})
	var off int64
	read := func() error {
		c, err := p.Log().Read(t.Context(), off, make([]byte, 1000))
		off = c.Next()
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.paired = nil
	f.mu.Unlock()
	mu.Lock()
	asked = nil
	mu.Unlock()

	var calls sync.WaitGroup
	for name, call := range map[string]func(context.Context) error{
		"Start":  func(ctx context.Context) error { _, err := node.Start(ctx, corral.Command{Shell: "sleep"}); return err },
		"Attach": func(ctx context.Context) error { _, err := node.Attach(ctx, p.Info().ID); return err },
		"Write":  func(ctx context.Context) error { _, err := p.Write(ctx, []byte("secret")); return err },
		"Signal": func(ctx context.Context) error { return p.Signal(ctx, corral.SIGUSR1) },
		"Stat":   func(ctx context.Context) error { _, err := p.Log().Stat(ctx); return err },
		"Read": func(context.Context) error {
			for {
				if err := read(); err != nil {
					return err
				}
			}
		},
	} {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := call(ctx); !errors.Is(err, corral.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	calls.Wait()
	mu.Lock()
	defer mu.Unlock()
	asked = slices.DeleteFunc(asked, func(op fakeexec.Op) bool { return op == fakeexec.OpRead }) // was granted before
	if len(asked) > 0 {
		t.Errorf("the node was asked for %v", asked)
	}
}
