//go:build e2e

package nodeexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// Two gateways use the same thousands of nodes. They lose no command and run none twice while
// connections of nodes and of gateways are cut.
func TestScale(t *testing.T) {
	nodes, commands, atOnce := 2000, 10_000, 64
	if exectest.Race {
		nodes, commands = 200, 800
	}
	f := newFleet(t)
	executors := make([]*fakeexec.Executor, nodes)
	conns := make([]*nats.Conn, nodes)
	var making sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i := range nodes {
		making.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			id := fmt.Sprintf("n%d", i)
			executors[i] = &fakeexec.Executor{Programs: map[string]fakeexec.Program{"who": func(x *fakeexec.IO) int {
				fmt.Fprint(x.Stdout, id)
				return i % 200
			}}}
			conns[i] = f.serve(nodeexec.Paired{ID: id, Name: "name-" + id}, executors[i], 0)
		})
	}
	began := time.Now()
	making.Wait()
	t.Cleanup(func() {
		for _, x := range executors {
			_ = x.Close()
		}
	})
	gateways := make([]*nodeexec.Fabric, 2)
	own := make([]*nats.Conn, 2)
	for i := range gateways {
		gateways[i], own[i] = f.gateway()
		f.await(gateways[i], nodes)
	}
	t.Logf("%d nodes are connected after %v", nodes, time.Since(began).Round(time.Millisecond))

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var next, again, lost atomic.Int64
	var working, cutting sync.WaitGroup
	over := make(chan struct{})
	cutting.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
			conn := conns[rand.IntN(nodes)] //nolint:gosec // no secret
			if n%100 == 99 {
				conn = own[n/100%2]
			}
			_ = conn.ForceReconnect() // it is being made again already
		}
	})
	began = time.Now()
	for range atOnce {
		working.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(commands) || t.Failed() {
					return
				}
				node := rand.IntN(nodes) //nolint:gosec // no secret
				if err := oneOf(ctx, gateways[n%2], node, fmt.Sprintf("c%d", n), &again, &lost); err != nil {
					t.Errorf("command %d on node %d: %v", n, node, err)
				}
			}
		})
	}
	working.Wait()
	took := time.Since(began)
	close(over)
	cutting.Wait()
	starts := 0
	for _, x := range executors {
		starts += x.Starts()
	}
	if starts != commands && !t.Failed() {
		t.Errorf("%d commands were run %d times", commands, starts)
	}
	t.Logf("%d commands in %v; %d starts were asked for again, and %d found by attaching", commands, took.Round(time.Millisecond), again.Load(), lost.Load())
}

// oneOf has one command run on a node, whatever becomes of its connection.
func oneOf(ctx context.Context, g *nodeexec.Fabric, node int, id string, again, lost *atomic.Int64) error {
	name := fmt.Sprintf("n%d", node)
	var p corral.Process
	for p == nil {
		x, _, err := g.Select(ctx, name)
		if err == nil {
			if p, err = x.Start(ctx, corral.Command{ID: id, Shell: "who"}); errors.Is(err, corral.ErrLost) {
				lost.Add(1)
				p, err = x.Attach(ctx, id)
			}
		}
		switch {
		case err == nil:
		case ctx.Err() == nil && (errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrNotFound)):
			again.Add(1)
			time.Sleep(10 * time.Millisecond)
		default:
			return err
		}
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.Code != node%200 {
		return fmt.Errorf("%+v: %w", exit, err)
	}
	buf := make([]byte, 100)
	off := int64(0)
	text := ""
	for {
		c, err := p.Log().Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, corral.ErrUnavailable) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		text += string(c.Data)
		off = c.Next()
	}
	if text != name {
		return fmt.Errorf("%q ran it", text)
	}
	return nil
}
