package session

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/located"
)

// onNodes is an executor that says where its processes are, and is told where to look.
type onNodes struct {
	corral.Executor
	claim atomic.Pointer[claim]
	asked atomic.Pointer[located.Place]
}

// claim is where an executor says its processes are.
type claim struct {
	id   string      // of the node
	info corral.Info // Host, Node and StartedAt
}

func (x *onNodes) claims(id string, host corral.Host, name string) {
	x.claim.Store(&claim{id, corral.Info{Host: host, Node: name}})
}

type onNode struct {
	corral.Process
	x  *onNodes
	id string
}

func (x *onNodes) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return onNode{p, x, x.claim.Load().id}, err
}

func (x *onNodes) Attach(ctx context.Context, id string) (corral.Process, error) {
	at := located.From(ctx)
	x.asked.Store(&at)
	p, err := x.Executor.Attach(ctx, id)
	return onNode{p, x, x.claim.Load().id}, err
}

func (p onNode) NodeID() string { return p.id }

func (p onNode) Info() corral.Info {
	info, said := p.Process.Info(), p.x.claim.Load().info
	info.Host, info.Node = said.Host, said.Node
	if !said.StartedAt.IsZero() {
		info.StartedAt = said.StartedAt
	}
	return info
}

func (r *rig) useNodes(host corral.Host, id, name string) *onNodes {
	r.Helper()
	x := &onNodes{Executor: r.x}
	x.claims(id, host, name)
	r.ok(r.m.Close())
	r.cfg.Executor = func(context.Context, string) (corral.Executor, error) { return x, nil }
	r.open()
	return x
}

// A session stays where it was started, whoever claims to have it after a restart.
func TestSessionStaysWhereItIs(t *testing.T) {
	for _, tc := range []struct {
		name     string
		id, node string // what claims it
		host     corral.Host
		ok       bool
	}{
		{"the same node", "n1", "honest", corral.HostNode, true},
		{"the same node with a new name", "n1", "renamed", corral.HostNode, true},
		{"another node", "n2", "evil", corral.HostNode, false},
		{"another node with that name", "n2", "honest", corral.HostNode, false},
		{"another host", "", "", corral.HostSandbox, false},
	} {
		for _, background := range []bool{true, false} {
			t.Run(tc.name, func(t *testing.T) {
				inBubble(t, func(r *rig) {
					x := r.useNodes(corral.HostNode, "n1", "honest")
					s := r.begin("sleep", Options{Background: background})
					x.claims(tc.id, tc.host, tc.node)
					for range 2 { // the table may be written anew
						r.reopen()
						synctest.Wait()
						if at, want := x.asked.Load(), (located.Place{Host: "node", Node: "n1"}); at == nil || *at != want {
							t.Errorf("it was looked for at %v, want %v", at, want)
						}
						_, err := r.again(s).process(r.Context())
						if tc.ok != (err == nil) || !tc.ok && !errors.Is(err, corral.ErrUnavailable) {
							t.Errorf("its process: %v", err)
						}
						r.ok(r.m.journal.rewrite(r.m.snapshot))
					}
					x.claims("n1", corral.HostNode, "honest")
					r.reopen()
					r.ok(r.again(s).Signal(r.Context(), corral.SIGKILL))
				})
			})
		}
	}
}

// The table of an earlier version has the name of the node alone.
func TestSessionStaysOnTheNodeOfAnEarlierTable(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.useNodes(corral.HostNode, "n1", "honest")
		s := r.begin("sleep", Options{Background: true})
		info := s.Info()
		r.ok(r.m.journal.add(line{Op: opBegun, ID: s.ID(), Info: &info}))
		x.claims("n2", corral.HostNode, "evil")
		r.reopen()
		if _, err := r.again(s).process(r.Context()); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("on another node: %v", err)
		}
		x.claims("n1", corral.HostNode, "honest")
		r.reopen()
		synctest.Wait()
		x.claims("n1", corral.HostNode, "renamed")
		r.reopen() // by now the table has the id
		r.ok(r.again(s).Signal(r.Context(), corral.SIGKILL))
	})
}
