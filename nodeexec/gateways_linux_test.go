package nodeexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// echo copies input to output, and exits with 7.
func echo(o *fakeexec.IO) int {
	if _, err := io.Copy(o.Stdout, o.Stdin); err != nil {
		return 1
	}
	return 7
}

// What one gateway started another reads, writes to and waits for, at the same
// time, and goes on to when the first is gone.
func TestTwoGateways(t *testing.T) {
	f := newFleet(t)
	const nodes, commands, size = 3, 12, 1 << 20
	for i := range nodes {
		x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"echo": echo}}
		t.Cleanup(func() { _ = x.Close() })
		f.serve(gpu(fmt.Sprintf("n%d", i)), x, 0)
	}
	first, dying := f.gateway()
	second, _ := f.gateway()
	f.await(first, nodes)
	f.await(second, nodes)
	r := poolRouter(first)
	data := patternOf(size)

	var through []corral.Process // of the first gateway
	for i := range commands {
		through = append(through, start(t, r, corral.Command{ID: fmt.Sprintf("job-%d", i), Shell: "echo", Stdin: true}))
		if n, err := through[i].Write(t.Context(), data[:size/2]); err != nil || n != size/2 {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	var work sync.WaitGroup
	half := make(chan struct{}, commands) // what the second gateway has read
	for i, p := range through {
		// The first gateway reads as well, and waits, until it is gone.
		for _, use := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := p.Wait(ctx); return err },
			func(ctx context.Context) error {
				buf := make([]byte, 16<<10)
				for off := int64(0); ; {
					c, err := p.Log().Read(ctx, off, buf)
					if err != nil {
						return err
					}
					if !bytes.Equal(c.Data, data[c.Offset:c.Next()]) {
						return fmt.Errorf("at %d there is something else", c.Offset)
					}
					off = c.Next()
				}
			},
		} {
			work.Go(func() {
				// Of some it may have seen the end before.
				if err := use(t.Context()); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, corral.ErrUnavailable) {
					t.Errorf("through the gateway that went: %v", err)
				}
			})
		}
		work.Go(func() {
			q, err := second.Attach(t.Context(), p.Info().ID)
			if err != nil || q.Info().Node != p.Info().Node {
				t.Errorf("Attach: %v", err)
				half <- struct{}{}
				return
			}
			waited := make(chan error, 1)
			go func() {
				exit, err := q.Wait(t.Context())
				if err == nil && exit.Code != 7 {
					err = fmt.Errorf("it ended with %v", exit)
				}
				waited <- err
			}()
			var got []byte
			var reading sync.WaitGroup
			reading.Go(func() {
				buf := make([]byte, 16<<10)
				told := false
				for {
					c, err := q.Log().Read(t.Context(), int64(len(got)), buf)
					if errors.Is(err, io.EOF) {
						return
					}
					if err != nil || c.Offset != int64(len(got)) {
						t.Errorf("Read at %d: a chunk at %d, %v", len(got), c.Offset, err)
						return
					}
					got = append(got, c.Data...)
					if len(got) >= size/4 && !told {
						half <- struct{}{}
						told = true
					}
				}
			})
			const piece = 50_000
			for off := size / 2; off < size; off += piece {
				end := min(off+piece, size)
				if n, err := q.Write(t.Context(), data[off:end]); err != nil || n != end-off {
					t.Errorf("Write: %d, %v", n, err)
					return
				}
			}
			if err := q.CloseStdin(t.Context()); err != nil {
				t.Errorf("CloseStdin: %v", err)
			}
			reading.Wait()
			if err := <-waited; err != nil {
				t.Errorf("Wait: %v", err)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("job %d: read %d bytes, which are not the %d that were written", i, len(got), size)
			}
		})
	}
	for range commands {
		<-half
	}
	dying.Close() // without a word
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	work.Wait()

	// The one that is left has all it needs, and starts nothing twice.
	again := start(t, poolRouter(second), corral.Command{ID: "job-0", Shell: "echo", Stdin: true})
	if exit, err := again.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("started again: %v, %v", exit, err)
	}
	third, _ := f.gateway()
	f.await(third, nodes)
	for i := range commands {
		p, err := third.Attach(t.Context(), fmt.Sprintf("job-%d", i))
		if err != nil {
			t.Fatalf("Attach: %v", err)
		}
		if err := p.Remove(t.Context()); err != nil {
			t.Errorf("Remove: %v", err)
		}
		if _, err := second.Attach(t.Context(), p.Info().ID); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("what another gateway removed: %v", err)
		}
	}
}

// A node that is not paired any more is none, also to what is under way.
func TestUnpaired(t *testing.T) {
	f := newFleet(t)
	f.serve(gpu("n1"), fake(t, nil), 0)
	g, _ := f.gateway()
	f.await(g, 1)
	p := start(t, poolRouter(g), corral.Command{ID: "job", Shell: "sleep"})
	waited := make(chan error, 1)
	go func() { _, err := p.Wait(t.Context()); waited <- err }()
	f.mu.Lock()
	f.paired = nil // another gateway has revoked it
	f.mu.Unlock()
	if _, _, err := g.Select(t.Context(), "n1"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Select: %v", err)
	}
	if _, err := g.Attach(t.Context(), "job"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach: %v", err)
	}
	select {
	case err := <-waited:
		if !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("Wait: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Wait waits for a node that there is not any more")
	}
}

var _ corral.OneOfMany = (*nodeexec.Node)(nil)
