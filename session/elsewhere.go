package session

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// Find is Session, and finds as well what another gateway began for the agent on
// a node: it is a session here from then on, in the background, and its end is no
// event, which it is where it began. Whether it is the agent's the node says, which
// was told when it started the command; to another agent it does not exist.
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
	if s, err = a.take(p, *o, true); err != nil {
		return nil, err
	}
	return a.Session(s.id) // unless it is another agent's by now
}

// take makes a session of a process, or returns the one that has its ID.
func (a Agent) take(p corral.Process, o origin.Origin, foreign bool) (*Session, error) {
	info := p.Info()
	s := newSession(a.m, info.ID, begun{
		Agent: a.name, Text: shortened(o.Command), TTY: o.TTY, Stdin: o.Stdin, Merged: o.Merged || o.TTY, Grace: o.Grace,
		At: info.StartedAt, Background: true, Keep: true, Foreign: foreign,
	})
	if old, err := a.m.add(context.Background(), s); err != nil || old != nil {
		return old, err
	}
	err := a.m.journal.add(line{Op: opStart, ID: s.id, Start: &s.start})
	if err == nil {
		err = a.m.journal.add(line{Op: opBegun, ID: s.id, Info: &info})
	}
	if err != nil {
		return nil, s.notBegun(err)
	}
	s.found(p)
	a.m.spawn(func() { s.watch(p) })
	return s, nil
}
