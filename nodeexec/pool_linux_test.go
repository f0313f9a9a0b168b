package nodeexec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// What is started in a pool spreads over those of its nodes that can be used, and
// is found by its id.
func TestPool(t *testing.T) {
	f := newFleet(t)
	nodes := map[string]*fakeexec.Executor{}
	for _, id := range []string{"a1", "b2", "c3"} {
		nodes[id] = fake(t, nil)
		f.serve(gpu(id), nodes[id], 0)
	}
	other := fake(t, nil)
	f.serve(nodeexec.Paired{ID: "d4", Labels: map[string]string{"pool": "cpu"}}, other, 0)
	f.pair(gpu("e5")) // it never says a word
	future := f.pair(gpu("f6"))
	g, _ := f.gateway()
	f.await(g, 4)
	hello(t, future, "f6", fabric.Hello{Min: 9, Max: 9, Boot: "b", Every: 60_000})
	f.await(g, 5)

	r := poolRouter(g)
	const commands = 60
	var starting sync.WaitGroup
	for i := range commands {
		starting.Go(func() {
			id := fmt.Sprintf("job-%d", i)
			p, err := r.Start(t.Context(), corral.Command{ID: id, Shell: "sleep"})
			if err != nil {
				t.Error(err)
				return
			}
			node := strings.TrimPrefix(p.Info().Node, "name-")
			if nodes[node] == nil {
				t.Errorf("%s runs on %s", id, p.Info().Node)
				return
			}
			if _, err := nodes[node].Attach(t.Context(), id); err != nil {
				t.Errorf("%s, which is said to have %s: %v", p.Info().Node, id, err)
			}
			if q, err := g.Attach(t.Context(), id); err != nil || q.Info().Node != p.Info().Node {
				t.Errorf("attached to %s: %v", id, err)
			}
		})
	}
	starting.Wait()
	for id, x := range nodes {
		if n := x.Starts(); n > commands/len(nodes)+6 {
			t.Errorf("%s has %d of %d commands", id, n, commands)
		}
	}
	if other.Starts() > 0 {
		t.Error("commands went to a node that is not of the pool")
	}
	_, _, err := g.Select(t.Context(), "pool:tpu")
	is(t, "a pool that there is not", err, corral.ErrUnavailable)
	for _, want := range []string{`"pool=tpu"`, `a1 (name-a1) with "pool=gpu"`, `d4 with "pool=cpu"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, without %s", err, want)
		}
	}
}

// A command goes to another node only if it surely did not begin on the first.
func TestPoolGoesOn(t *testing.T) {
	// The node a is drawn, as b is busier.
	open := func(t *testing.T, fault func(context.Context, fakeexec.Op) error) (r *corral.Router, a, b *fakeexec.Executor, vanish func()) {
		f := newFleet(t)
		ctx, release := context.WithCancel(t.Context())
		t.Cleanup(release)
		a, b = fake(t, func(op fakeexec.Op, _ string) error { return fault(ctx, op) }), fake(t, nil)
		conn := f.serve(gpu("a1"), a, 0)
		f.serve(gpu("b2"), b, 1000)
		g, gateway := f.gateway()
		f.await(g, 2)
		return poolRouter(g), a, b, func() {
			conn.Close()
			// Until the server knows: what it takes for a node that is gone may have
			// arrived there.
			for t.Context().Err() == nil {
				if _, err := gateway.Request(fabric.WhoSubject("a1"), nil, 100*time.Millisecond); errors.Is(err, nats.ErrNoResponders) {
					return
				}
			}
		}
	}
	fine := func(context.Context, fakeexec.Op) error { return nil }

	t.Run("refused", func(t *testing.T) {
		r, a, b, _ := open(t, func(_ context.Context, op fakeexec.Op) error {
			if op == fakeexec.OpStart {
				return corral.Errorf(corral.ErrUnavailable, "", "it has no room")
			}
			return nil
		})
		p, err := r.Start(t.Context(), corral.Command{Shell: "sleep"})
		if err != nil || p.Info().Node != "name-b2" || a.Starts() != 0 || b.Starts() != 1 {
			t.Errorf("%v; %d and %d commands began", err, a.Starts(), b.Starts())
		}
	})
	t.Run("gone", func(t *testing.T) {
		r, a, b, vanish := open(t, fine)
		vanish()
		for range 2 { // the second time it is known to be gone
			begun := time.Now()
			p, err := r.Start(t.Context(), corral.Command{Shell: "sleep"})
			if err != nil || p.Info().Node != "name-b2" {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
		}
		if a.Starts() != 0 || b.Starts() != 2 {
			t.Errorf("%d and %d commands began", a.Starts(), b.Starts())
		}
	})
	t.Run("not answered", func(t *testing.T) {
		r, a, b, _ := open(t, func(ctx context.Context, op fakeexec.Op) error {
			if op == fakeexec.OpStarted {
				<-ctx.Done()
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := r.Start(ctx, corral.Command{Shell: "sleep"})
		if !errors.Is(err, corral.ErrLost) || a.Starts() != 1 || b.Starts() != 0 {
			t.Errorf("%v; %d and %d commands began", err, a.Starts(), b.Starts())
		}
	})
	t.Run("denied", func(t *testing.T) {
		r, _, b, _ := open(t, func(_ context.Context, op fakeexec.Op) error {
			if op == fakeexec.OpStart {
				return corral.Errorf(corral.ErrDenied, "", "it may not")
			}
			return nil
		})
		_, err := r.Start(t.Context(), corral.Command{Shell: "sleep"})
		if !errors.Is(err, corral.ErrDenied) || b.Starts() != 0 {
			t.Errorf("%v; %d commands began", err, b.Starts())
		}
	})
}
