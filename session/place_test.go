package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/located"
)

// onNodes is an executor that says where its processes are, and is told where to look.
type onNodes struct {
	corral.Executor
	info  corral.Info // Host, Node and StartedAt
	id    string      // of the node
	asked located.Place
}

type onNode struct {
	corral.Process
	x  *onNodes
	id string
}

func (x *onNodes) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return onNode{p, x, x.id}, err
}

func (x *onNodes) Attach(ctx context.Context, id string) (corral.Process, error) {
	x.asked = located.From(ctx)
	p, err := x.Executor.Attach(ctx, id)
	return onNode{p, x, x.id}, err
}

func (p onNode) NodeID() string { return p.id }

func (p onNode) Info() corral.Info {
	info := p.Process.Info()
	info.Host, info.Node = p.x.info.Host, p.x.info.Node
	if !p.x.info.StartedAt.IsZero() {
		info.StartedAt = p.x.info.StartedAt
	}
	return info
}

func (r *rig) useNodes(host corral.Host, id, name string) *onNodes {
	r.Helper()
	x := &onNodes{Executor: r.x, info: corral.Info{Host: host, Node: name}, id: id}
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
					x.id, x.info = tc.id, corral.Info{Host: tc.host, Node: tc.node}
					for range 2 { // the table may be written anew
						r.reopen()
						synctest.Wait()
						if want := (located.Place{Host: "node", Node: "n1"}); x.asked != want {
							t.Errorf("it was looked for at %v, want %v", x.asked, want)
						}
						_, err := r.again(s).process(r.Context())
						if tc.ok != (err == nil) || !tc.ok && !errors.Is(err, corral.ErrUnavailable) {
							t.Errorf("its process: %v", err)
						}
						r.ok(r.m.journal.rewrite(r.m.snapshot))
					}
					x.id, x.info = "n1", corral.Info{Host: corral.HostNode, Node: "honest"}
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
		x.id, x.info.Node = "n2", "evil"
		r.reopen()
		if _, err := r.again(s).process(r.Context()); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("on another node: %v", err)
		}
		x.id, x.info.Node = "n1", "honest"
		r.reopen()
		synctest.Wait()
		x.info.Node = "renamed"
		r.reopen() // by now the table has the id
		r.ok(r.again(s).Signal(r.Context(), corral.SIGKILL))
	})
}
