package session

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
)

// Attended is an Agent whose callers wait for what they start. When a caller's key is no
// longer valid, or the gateway is about to stop, its wait is over, with ErrUnavailable, and
// the command goes on in the background.
type Attended struct{ Agent }

// Start begins a session; see Attended.
func (a Attended) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	s, err := a.Begin(ctx, Options{Command: cmd, Background: true})
	if err != nil {
		return nil, err
	}
	return attended{s}, nil
}

type attended struct{ *Session }

// Wait waits for the end; see Attended.
func (a attended) Wait(ctx context.Context) (corral.Exit, error) {
	ctx, leave := a.m.staying(ctx)
	defer leave()
	exit, err := a.Session.Wait(ctx)
	if errors.Is(err, errWaited) {
		err = corral.Errorf(corral.ErrUnavailable, "ask what became of session "+a.id, "the gateway stops, or the key of the call has ended; the command goes on as session %s", a.id)
	}
	return exit, err
}
