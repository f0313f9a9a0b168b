package nodeexec

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/origin"
)

// process is a process on a node.
type process struct {
	link
	info origin.Info
	log  log

	started int64 // by the node's clock, Unix ns; 0: not known

	noStdin bool // it was started without input; false if unknown

	ended sync.Once
	known chan struct{} // closed when exit is
	exit  corral.Exit

	removed atomic.Bool // by this handle: the ID may belong to another process by now
}

// ref identifies the process to the node: the ID may belong to another process by now.
func (p *process) ref() string {
	return fabric.Ref{ID: p.info.ID, Started: p.started}.String()
}

func (p *process) gone() error {
	return corral.Errorf(corral.ErrEnded, "", "process %s was removed", p.info.ID)
}

// exited stores how the process ended; the end of the output brings it.
func (p *process) exited(e corral.Exit) {
	p.ended.Do(func() {
		p.exit = p.peer.exitHere(e)
		close(p.known)
	})
}

func (p *process) Info() corral.Info { return p.info.Info }

// Origin is for package origin.
func (p *process) Origin() *origin.Origin { return p.info.Origin }

// NodeID is for package origin.
func (p *process) NodeID() string { return p.peer.id }

func (p *process) Log() corral.Log { return &p.log }

// waitFirst is how long Wait waits for the end of a running stream before it asks.
const waitFirst = 100 * time.Millisecond

// Wait implements corral.Process. It goes on while the node is away.
func (p *process) Wait(ctx context.Context) (corral.Exit, error) {
	select {
	case <-p.known:
		return p.exit, nil
	default:
	}
	if p.removed.Load() {
		return corral.Exit{}, corral.Errorf(corral.ErrNotFound, "", "process %s was removed", p.info.ID)
	}
	if p.log.flows() {
		select {
		case <-p.known:
			return p.exit, nil
		case <-time.After(waitFirst):
		case <-ctx.Done():
			return corral.Exit{}, ctx.Err()
		case <-p.f.ctx.Done():
			return corral.Exit{}, p.f.closedError()
		}
	}
	for {
		a, err := p.ask(ctx, fabric.OpWait, p.ref(), nil, 0)
		switch {
		case err != nil:
			return corral.Exit{}, err
		case a.Exit != nil:
			p.exited(*a.Exit)
			return p.exit, nil
		case !a.Pending:
			return corral.Exit{}, p.senseless()
		}
	}
}

func (p *process) senseless() error {
	return corral.Errorf(corral.ErrUnavailable, "look at the log of the node", "node %s gives an answer to something else", p.name)
}

// Signal implements corral.Process.
func (p *process) Signal(ctx context.Context, sig corral.Signal) error {
	if !sig.Valid() {
		return corral.Errorf(corral.ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", int(sig))
	}
	if p.removed.Load() {
		return p.gone()
	}
	body, err := json.Marshal(fabric.Signal{Signal: sig})
	if err != nil {
		return err
	}
	switch sig {
	case corral.SIGKILL, corral.SIGTERM, corral.SIGSTOP, corral.SIGCONT:
		_, err = p.ask(ctx, fabric.OpSignal, p.ref(), body, p.f.patience)
		return err
	}
	a, err := p.f.call(ctx, p.peer, request{op: fabric.OpSignal, id: p.ref(), body: body, once: true, patience: p.f.patience})
	u := (*unanswered)(nil)
	switch {
	case err == nil && a.Error != nil:
		return fabric.DecodeError(a.Error)
	case !errors.As(err, &u):
		return err
	case u.maybe:
		return corral.Errorf(corral.ErrLost, "look at the process before sending it again",
			"node %s was asked to send %v to process %s and did not answer: %w", p.name, sig, p.info.ID, u.cause)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return p.unavailable(u.cause)
}

// Resize implements corral.Process.
func (p *process) Resize(ctx context.Context, size corral.Size) error {
	if p.removed.Load() {
		return p.gone()
	}
	body, err := json.Marshal(size)
	if err != nil {
		return err
	}
	_, err = p.ask(ctx, fabric.OpResize, p.ref(), body, p.f.patience)
	return err
}

// CloseStdin implements corral.Process.
func (p *process) CloseStdin(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p.noStdin || p.removed.Load() {
		return err
	}
	_, err := p.ask(ctx, fabric.OpEOF, p.ref(), nil, p.f.patience)
	return err
}

// Remove implements corral.Process.
func (p *process) Remove(ctx context.Context) error {
	if p.removed.Load() {
		return nil
	}
	_, err := p.ask(ctx, fabric.OpRemove, p.ref(), nil, p.f.patience)
	if err == nil {
		p.removed.Store(true)
	}
	return err
}
