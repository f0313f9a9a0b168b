package guard

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A Handler does what follows from answers.
type Handler interface {
	// Run starts a command that was approved, in the background. Its ID and
	// Approval are set; starting it again runs nothing.
	Run(ctx context.Context, agent string, cmd corral.Command) error
	// Resume starts a command again of which the program may have died while
	// it started it; it does nothing if it was started, or is forgotten.
	Resume(ctx context.Context, agent string, cmd corral.Command) error
	// Denied tells the agent that a command will not run, and why. It may be
	// told more than once.
	Denied(ctx context.Context, rec approval.Record, why string) error
}

// A note is what the desk keeps of a command beside what people see, so that
// it can be run later. The values of its environment are not in it.
type note struct {
	Command corral.Command `json:"command"`
	Env     bool           `json:"env,omitempty"` // there were variables
}

func newNote(cmd corral.Command) (json.RawMessage, error) {
	n := note{Command: cmd, Env: len(cmd.Env) > 0}
	n.Command.Env = nil
	if n.Command.ID == "" {
		n.Command.ID = corral.NewID()
	}
	return json.Marshal(n)
}

// remember keeps the environment of a command that waits, for this life.
func (g *Guard) remember(id string, cmd corral.Command) {
	if len(cmd.Env) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.env[id] = cmd.Env
}

func (g *Guard) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.env, id)
}

// CommandID is the ID that the command of an approval gets, or has, when it runs.
func CommandID(rec approval.Record) string {
	var n note
	if json.Unmarshal(rec.Note, &n) != nil {
		return ""
	}
	return n.Command.ID
}

// retryDelay is how long Serve waits before it tries again what failed.
const retryDelay = 5 * time.Second

// Serve follows the desk until ctx ends, and has its handler do what follows
// from the answers. It begins with what earlier lives left undone.
func (g *Guard) Serve(ctx context.Context, h Handler) {
	var after int64
	for ctx.Err() == nil {
		changed, next, err := g.cfg.Desk.Changes(ctx, after)
		if err != nil {
			if ctx.Err() == nil {
				g.cfg.Log.Error("cannot follow the approvals", "error", err)
				sleep(ctx, retryDelay)
			}
			continue
		}
		for _, rec := range changed {
			for ctx.Err() == nil {
				err := g.settle(ctx, rec, h)
				if err == nil {
					break
				}
				g.cfg.Log.Error("cannot do what follows from an approval; trying again", "approval", rec.ID, "state", rec.State, "error", err)
				sleep(ctx, retryDelay)
			}
		}
		after = next
	}
}

// settle does what follows from a record. An error is worth another try.
func (g *Guard) settle(ctx context.Context, rec approval.Record, h Handler) error {
	var n note
	if rec.State == approval.Pending || json.Unmarshal(rec.Note, &n) != nil {
		return nil
	}
	g.mu.Lock()
	env, attended := g.env[rec.ID], g.attended[rec.ID] > 0
	g.mu.Unlock()
	if rec.State != approval.Allowed {
		defer g.forget(rec.ID)
	}
	if attended { // by a call that goes on with it
		return nil
	}
	cmd := n.Command
	cmd.Approval, cmd.Env = rec.ID, env
	run := h.Run
	switch {
	case rec.State == approval.Denied, rec.State == approval.Expired && rec.Decision.Fallback != policy.Allowed:
		return h.Denied(ctx, rec, rec.Settled())
	case n.Env && env == nil && rec.State != approval.Consumed:
		return h.Denied(ctx, rec, "it was allowed, but its environment, which is not written down, is gone with a restart; run it again, which needs no other approval")
	case n.Env && env == nil:
		return nil
	case rec.State == approval.Consumed:
		run = h.Resume
	}
	err := run(ctx, rec.Agent, cmd)
	switch {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.Is(err, corral.ErrUnavailable):
		return err
	case errors.Is(err, corral.ErrLost): // it has a session, which says what becomes of it
		return nil
	}
	return h.Denied(ctx, rec, err.Error())
}

// Await waits for the answer to an approval, and gives the one that approve
// returns, unless somebody else was first. Who calls it runs the command itself
// when it is allowed, with the ID of CommandID and the approval. An error of
// approve leaves the approval pending: then the command runs when it is
// allowed, as any other.
func (g *Guard) Await(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error)) (approval.Record, error) {
	g.attend(rec.ID, 1)
	defer g.attend(rec.ID, -1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type asked struct {
		answer approval.Answer
		err    error
	}
	answered := make(chan asked, 1)
	go func() {
		a, err := approve(ctx, rec)
		answered <- asked{a, err}
	}()
	type settled struct {
		rec approval.Record
		err error
	}
	elsewhere := make(chan settled, 1)
	go func() {
		r, err := g.cfg.Desk.Wait(ctx, rec.ID)
		elsewhere <- settled{r, err}
	}()
	select {
	case s := <-elsewhere:
		cancel()
		<-answered
		return s.rec, s.err
	case a := <-answered:
		defer func() { cancel(); <-elsewhere }()
		if a.err != nil {
			return rec, a.err
		}
		now, err := g.cfg.Desk.Answer(ctx, rec.ID, a.answer)
		if errors.Is(err, corral.ErrConflict) { // somebody was first
			return g.cfg.Desk.Get(rec.Agent, rec.ID)
		}
		return now, err
	}
}

func (g *Guard) attend(id string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.attended[id] += n; g.attended[id] == 0 {
		delete(g.attended, id)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
