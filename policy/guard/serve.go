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
	// Resume starts a command again if the program may have died while it started
	// it; it does nothing if the command was started, or is forgotten.
	Resume(ctx context.Context, agent string, cmd corral.Command) error
	// Denied tells the agent that a command will not run, and why. It may be
	// told more than once. Attended: a call waited for it, and was told.
	Denied(ctx context.Context, rec approval.Record, why string, attended bool) error
}

// note is what is kept of a command to run it later, if that is done here.
func (e *Explanation) note(cmd corral.Command) (json.RawMessage, error) {
	if e.forGateway {
		return nil, nil
	}
	return approval.NewNote(cmd, e.Route)
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

// retryDelay is how long Serve waits before it tries again what failed.
const retryDelay = 5 * time.Second

// Serve follows the desk until ctx ends, and has its handler do what follows
// from the answers to what was asked for here: of several gateways that share their
// approvals each sees to its own. It begins with what earlier lives left undone.
func (g *Guard) Serve(ctx context.Context, h Handler) {
	var after int64
	begun := false            // this life: what comes before is of earlier ones
	again := map[string]due{} // what did not go, by the approval: others do not wait for it
	for ctx.Err() == nil {
		changed, next, err := g.changes(ctx, after, len(again) > 0)
		if err != nil {
			if ctx.Err() == nil {
				g.cfg.Log.Error("cannot follow the approvals", "error", err)
				sleep(ctx, retryDelay)
			}
			continue
		}
		now := make([]due, 0, len(changed))
		for _, rec := range changed {
			delete(again, rec.ID)
			if g.cfg.Desk.Own(rec) {
				now = append(now, due{rec: rec, fresh: begun})
			}
		}
		for _, d := range again {
			if !time.Now().Before(d.at) {
				now = append(now, d)
			}
		}
		for _, d := range now {
			delete(again, d.rec.ID)
			if ctx.Err() != nil {
				return
			}
			if err := g.settle(ctx, d.rec, h, d.fresh); err != nil {
				g.cfg.Log.Error("cannot do what follows from an approval; trying again", "approval", d.rec.ID, "state", d.rec.State, "error", err)
				d.at = time.Now().Add(retryDelay)
				again[d.rec.ID] = d
			}
		}
		after, begun = next, true
	}
}

// due is a record from which something is to follow, and when.
type due struct {
	rec   approval.Record
	fresh bool // it is of this life of the program
	at    time.Time
}

// changes are those of the desk; none if something is due again before there are
// some.
func (g *Guard) changes(ctx context.Context, after int64, again bool) ([]approval.Record, int64, error) {
	if !again {
		return g.cfg.Desk.Changes(ctx, after)
	}
	wait, cancel := context.WithTimeout(ctx, retryDelay)
	defer cancel()
	changed, next, err := g.cfg.Desk.Changes(wait, after)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return nil, after, nil
	}
	return changed, next, err
}

// settle does what follows from a record. An error is worth another try. Fresh:
// it is of this life of the program.
func (g *Guard) settle(ctx context.Context, rec approval.Record, h Handler, fresh bool) error {
	n, ok := rec.Noted()
	if rec.State == approval.Pending || !ok {
		return nil
	}
	g.mu.Lock()
	env, attended, told := g.env[rec.ID], g.attended[rec.ID] > 0, g.told[rec.ID]
	delete(g.told, rec.ID)
	g.mu.Unlock()
	// It may have been used since: by the call that attended to it, for one.
	if now, err := g.cfg.Desk.Get(rec.Agent, rec.ID); err == nil {
		rec = now
	}
	if rec.State != approval.Allowed {
		defer g.forget(rec.ID)
	}
	lapsed := rec.State == approval.Expired && rec.Decision.Fallback == policy.Allowed
	if rec.State == approval.Denied || rec.State == approval.Expired && !lapsed {
		return h.Denied(ctx, rec, rec.Settled(), attended || told)
	}
	if attended { // by a call that goes on with it
		return nil
	}
	cmd, run := n.Command, h.Run
	cmd.Approval, cmd.Env = rec.ID, env
	unknown := n.Env && env == nil
	switch {
	case rec.State == approval.Consumed && (fresh || unknown):
		return nil // the call that used it sees to it
	case unknown:
		return h.Denied(ctx, rec, "its environment, which is not written down, is gone with a restart; run it again, which needs no other approval as long as this one is good", false)
	case rec.State == approval.Consumed, !fresh && lapsed: // and whether that ran is not written down
		run = h.Resume
	default:
		ctx = context.WithValue(ctx, firstUse{}, true)
	}
	err := run(ctx, rec.Agent, cmd)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, errUsed):
		return nil
	case errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrNoNode):
		return err
	case errors.Is(err, corral.ErrLost): // it has a session, which says what becomes of it
		return nil
	}
	now, gone := g.cfg.Desk.Get(rec.Agent, rec.ID)
	switch {
	case gone == nil && now.State == approval.Consumed && now.CommandID != cmd.ID:
		return nil // by the same command, asked for again
	case gone == nil && now.State == approval.Allowed:
		if _, err := g.cfg.Desk.Void(rec.ID, err.Error()); err != nil {
			return err
		}
		return nil // it is denied now, which is the next change
	}
	return h.Denied(ctx, rec, err.Error(), false)
}

// firstUse is of contexts in which an approval is only good if it was not used
// yet, not even by the same command: that may have ended and be forgotten, and
// nothing runs twice by itself.
type firstUse struct{}

var errUsed = corral.Errorf(corral.ErrDenied, "", "the approval was used already")

// use uses an approval up.
func (g *Guard) use(ctx context.Context, rec approval.Record, claim approval.Claim) error {
	g.using.Lock()
	defer g.using.Unlock()
	if first, _ := ctx.Value(firstUse{}).(bool); first {
		if now, err := g.cfg.Desk.Get(rec.Agent, rec.ID); err == nil && now.State == approval.Consumed {
			return errUsed
		}
	}
	_, err := g.cfg.Desk.Consume(ctx, rec.ID, claim)
	return err
}

// Await waits for the answer to an approval, and gives the one that approve returns,
// unless there was another answer before. If the command is allowed, run is to
// start it, with Record.StartID and the approval; Serve leaves it alone as
// long as Await goes on. What run did not use is used up after it: a call that
// is over runs nothing later. An error of approve leaves the approval pending:
// then the command runs when it is allowed, as any other.
func (g *Guard) Await(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error), run func(approval.Record) error) (approval.Record, error) {
	g.attend(rec.ID, 1)
	defer g.attend(rec.ID, -1)
	rec, err := g.answered(ctx, rec, approve)
	if err == nil && (rec.State == approval.Denied || rec.State == approval.Expired) {
		g.tell(rec.ID)
	}
	if err != nil || rec.State != approval.Allowed {
		return rec, err
	}
	err = run(rec)
	g.abandon(ctx, rec)
	return rec, err
}

// abandon uses up what a call was allowed and did not use, unless another call
// waits for the same.
func (g *Guard) abandon(ctx context.Context, rec approval.Record) {
	g.mu.Lock()
	others := g.attended[rec.ID] > 1
	g.mu.Unlock()
	if now, err := g.cfg.Desk.Get(rec.Agent, rec.ID); others || err != nil || now.State != approval.Allowed {
		return
	}
	claim := approval.Claim{CommandID: rec.StartID(), Agent: rec.Agent, Host: rec.Host, Node: rec.Node, Binding: rec.Binding}
	if err := g.use(context.WithoutCancel(ctx), rec, claim); err != nil {
		g.cfg.Log.Warn("an approval that a call did not use is still there", "approval", rec.ID, "error", err)
	}
}

// answered waits for the answer to an approval.
func (g *Guard) answered(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error)) (approval.Record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type asked struct {
		answer approval.Answer
		err    error
	}
	replied := make(chan asked, 1)
	go func() {
		a, err := approve(ctx, rec)
		replied <- asked{a, err}
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
		<-replied
		return s.rec, s.err
	case a := <-replied:
		defer func() { cancel(); <-elsewhere }()
		if a.err != nil {
			return rec, a.err
		}
		now, err := g.cfg.Desk.Answer(ctx, rec.ID, a.answer)
		if err != nil && now.State != "" && now.State != approval.Pending { // there was another answer before, or it expired
			return now, nil
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

// tell notes that a call was told that its command will not run. Without Serve that
// is never asked for.
func (g *Guard) tell(id string) {
	const most = 1000
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.told) >= most {
		clear(g.told)
	}
	g.told[id] = true
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
