package session

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// Find is Session, but also finds a process on a node that another gateway began for
// the agent. It becomes a session here, in the background. Its end is an event only at
// the first gateway. The node decides whether the process belongs to the agent, by the
// name in the request that started it; to another agent it does not exist.
func (a Agent) Find(ctx context.Context, id string) (*Session, error) {
	s, err := a.Session(id)
	if err == nil || a.m.cfg.Elsewhere == nil || corral.ValidateID(id) != nil {
		return s, err
	}
	p, elsewhere := a.m.cfg.Elsewhere(ctx, id)
	switch {
	case errors.Is(elsewhere, corral.ErrNotFound):
		return nil, err
	case elsewhere != nil:
		return nil, elsewhere
	}
	o := origin.Of(p)
	if o == nil || o.Agent != a.name {
		return nil, err
	}
	if a.m.isDraining() {
		return nil, errDraining
	}
	if s, err = a.addProcess(p, *o, true); err != nil {
		return nil, err
	}
	return a.Session(s.id) // fails if it belongs to another agent by now
}

// addProcess adds a session for a process, or returns the session that has its ID.
func (a Agent) addProcess(p corral.Process, o origin.Origin, foreign bool) (*Session, error) {
	info := p.Info()
	o.Agent, o.Command = a.name, shortened(o.Command)
	s := newSession(a.m, info.ID, begun{Origin: o, At: info.StartedAt, Background: true, Keep: true, Foreign: foreign})
	if old, err := a.m.add(context.Background(), s); err != nil || old != nil {
		return old, err
	}
	err := a.m.journal.add(line{Op: opStart, ID: s.id, Start: &s.start})
	if err == nil {
		err = a.m.journal.add(line{Op: opBegun, ID: s.id, Info: &info, Node: origin.NodeOf(p)})
	}
	if err != nil {
		return nil, s.notBegun(err)
	}
	s.found(p)
	a.m.spawn(func() { s.watch(p) })
	return s, nil
}
