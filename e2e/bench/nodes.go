//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// node is a node in a process of its own, with a warden of its own.
type node struct {
	corral.Executor
	fleet *fleet
	child *child

	stuck []corral.Process // sessions with much output
}

// addNode starts a node like the gateway host, on a message server in this
// process.
func (s *site) addNode(ctx context.Context, env []string) (err error) {
	dir := filepath.Join(s.dir, "node")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	n := &node{}
	s.closers = append(s.closers, n)
	if n.fleet, err = openFleet(dir); err != nil {
		return err
	}
	if n.child, err = s.startChild(roleNodes); err != nil {
		return err
	}
	o := n.fleet.order(1)
	o.StateDir, o.Workspace, o.Warden, o.Environ = filepath.Join(dir, "host"), s.dir, s.wardenPath, env
	if err := n.child.tell(o); err != nil {
		return err
	}
	if err := n.fleet.await(ctx, 1); err != nil {
		return fmt.Errorf("the node does not connect: %w: %s", err, n.child.said.String())
	}
	if n.Executor, _, err = n.fleet.nodes.Select(ctx, ""); err != nil {
		return err
	}
	s.add(place{name: nodeTLS, run: ours{ex: n, login: true}.run})
	s.add(place{name: beside(0), run: n.beside(0)})
	s.add(place{name: beside(stuckReaders), run: n.beside(stuckReaders)})
	return nil
}

// Close ends the node, its sessions and its message server.
func (n *node) Close() error {
	var errs []error
	for _, p := range n.stuck {
		errs = append(errs, discard(p))
	}
	if n.child != nil {
		errs = append(errs, n.child.Close())
	}
	if n.fleet != nil {
		errs = append(errs, n.fleet.Close())
	}
	return errors.Join(errs...)
}

// printed is a job that prints n bytes with a known sum.
func (s *site) printed(n int64) job {
	if s.sums == nil {
		s.sums = map[int64][]byte{}
	}
	if s.sums[n] == nil {
		sum := sha256.New()
		if err := printBytes(sum, n); err != nil {
			panic(err) // a hash takes everything
		}
		s.sums[n] = sum.Sum(nil)
	}
	return job{args: []string{s.self, rolePrint, strconv.FormatInt(n, 10)}, output: n, sum: s.sums[n]}
}

// stuckReaders is how many readers do not read on.
const stuckReaders = 50

const (
	stuckOutput = 1 << 20 // of each of their sessions: far more than a reader is granted
	stuckSip    = 1 << 10 // what a reader takes at a time,
	stuckPause  = time.Second
	// and how long the node's side of one is kept that has gone
	stuckGone = 2500 * time.Millisecond
)

func beside(readers int) string { return fmt.Sprintf("node, beside %d stuck readers", readers) }

// beside runs a job while so many readers of other sessions are stuck: each has
// been granted what readers are, and takes a sip a second, so that it is not
// taken to have gone. The sessions are there in any case.
func (n *node) beside(readers int) func(context.Context, job) (time.Duration, error) {
	return func(ctx context.Context, j job) (time.Duration, error) {
		if err := n.fillSessions(ctx); err != nil {
			return 0, err
		}
		reading, stop := context.WithCancel(ctx)
		defer stop()
		var begun, over sync.WaitGroup
		errs := make([]error, readers)
		for i := range readers {
			begun.Add(1)
			over.Go(func() { errs[i] = sip(reading, n.stuck[i].Log(), sync.OnceFunc(begun.Done)) })
		}
		begun.Wait()
		time.Sleep(pauseTime) // until all that was granted is here
		took, err := ours{ex: n}.run(ctx, j)
		stop()
		over.Wait()
		if readers > 0 {
			time.Sleep(stuckGone)
		}
		return took, errors.Join(append(errs, err)...)
	}
}

// sip reads a log slowly until ctx ends, and says when it has begun.
func sip(ctx context.Context, log corral.Log, begun func()) error {
	defer begun()
	buf := make([]byte, stuckSip)
	for off := int64(0); ; {
		c, err := log.Read(ctx, off, buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		off = c.Next()
		begun()
		select {
		case <-time.After(stuckPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// fillSessions starts the sessions that readers get stuck in, once.
func (n *node) fillSessions(ctx context.Context) error {
	for len(n.stuck) < stuckReaders {
		p, err := n.Start(ctx, corral.Command{Args: []string{
			"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero; exec sleep 100000", stuckOutput),
		}})
		if err != nil {
			return err
		}
		n.stuck = append(n.stuck, p)
		for full := false; !full; {
			st, err := p.Log().Stat(ctx)
			if err != nil {
				return err
			}
			full = st.Size >= stuckOutput
		}
	}
	return nil
}

// Memory of a gateway for nodes that do nothing.
const (
	nodesName   = "nodes"
	idleNodes   = 1000
	maxIdleNode = 80 // KB each
	// nodesRest is how long they are idle before: two heartbeats, of all.
	nodesRest = 10 * time.Second
)

// measureNodes is what each of so many idle nodes costs a gateway, which is in
// a process of its own, as they are in another.
func (s *site) measureNodes(nodes int, rest time.Duration) (resident, inGo float64, err error) {
	dir, err := os.MkdirTemp(s.dir, "nodes-")
	if err != nil {
		return 0, 0, err
	}
	gateway, err := s.startChild(roleGateway, dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, gateway.Close()) }()
	var o order
	if err := gateway.hear(&o); err != nil {
		return 0, 0, err
	}
	before, err := gateway.count(0, rest)
	if err != nil {
		return 0, 0, err
	}
	children, err := s.startChild(roleNodes)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, children.Close()) }()
	o.Nodes = nodes
	if err := children.tell(o); err != nil {
		return 0, 0, err
	}
	after, err := gateway.count(nodes, rest)
	each := func(after, before int64) float64 { return float64(after-before) / 1e3 / float64(nodes) }
	return each(after.Resident, before.Resident), each(after.Go, before.Go), err
}

func (c *child) count(nodes int, rest time.Duration) (n need, err error) {
	if err := c.tell(count{nodes, rest}); err != nil {
		return need{}, err
	}
	return n, c.hear(&n)
}

func (r *report) addNodes(nodes int, resident, inGo float64) {
	add := func(what string, kb, atMost float64) {
		r.Checks = append(r.Checks, check{atMost: atMost}.outcome(nodesName, fmt.Sprintf("gateway, each of %d idle nodes, %s", nodes, what), "KB", kb, 0, 0))
	}
	add("resident after collecting garbage", resident, maxIdleNode)
	add("values and stacks of Go", inGo, 0)
}
