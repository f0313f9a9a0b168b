package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A Handler acts on the answers to approvals.
type Handler interface {
	// Run starts a command that was approved, in the background. Its ID and
	// Approval are set; starting it again runs nothing.
	Run(ctx context.Context, rec approval.Record, cmd corral.Command) error
	// Resume starts a command if the program may have died before it was started. It
	// does nothing if the command was started, or is forgotten.
	Resume(ctx context.Context, rec approval.Record, cmd corral.Command) error
	// Denied tells the agent that a command will not run, and why. It may be called
	// more than once. Attended: a call waited for the answer and was told.
	Denied(ctx context.Context, rec approval.Record, why string, attended bool) error
}

// note is the data to run the command later; nil if the gateway runs it, not this node.
func (g *Guard) note(ctx context.Context, cmd corral.Command, e Explanation) (json.RawMessage, error) {
	if e.forGateway {
		return nil, nil
	}
	caller := ""
	if g.cfg.Caller != nil {
		caller = g.cfg.Caller(ctx)
	}
	return approval.NewNote(cmd, e.Route, caller)
}

// remember keeps the environment of a command that waits, in memory only.
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

// retryDelay is how long Serve waits before it tries a failed command again.
const retryDelay = 5 * time.Second

// Serve follows the desk until ctx ends, and calls h for each answer. It handles only the
// approvals of this gateway: other gateways at a shared desk handle their own. It begins
// with the answers that were left when the program stopped. The commands of an agent for one
// machine are started in the order of their answers; no other waits for them.
func (g *Guard) Serve(ctx context.Context, h Handler) {
	a := acting{guard: g, handler: h, last: map[string]chan struct{}{}}
	defer a.owned.Wait()
	var after int64
	begun := false // the answers from before this start of the program have been seen
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
			if g.cfg.Desk.Own(rec) {
				a.act(ctx, rec, begun)
			}
		}
		after, begun = next, true
	}
}

// acting is what Serve does at a time.
type acting struct {
	guard   *Guard
	handler Handler
	owned   sync.WaitGroup

	mu   sync.Mutex
	last map[string]chan struct{} // of an agent and a machine: closed when its last record was acted on
}

// act acts on a record after those before it, and tries again until that succeeds or the
// record changes. Fresh is as for handleAnswer.
func (a *acting) act(ctx context.Context, rec approval.Record, fresh bool) {
	lane, done := fmt.Sprintf("%q %s %q", rec.Agent, rec.Host, rec.Node), make(chan struct{})
	a.mu.Lock()
	before := a.last[lane]
	a.last[lane] = done
	a.mu.Unlock()
	a.owned.Go(func() {
		if before != nil {
			<-before
		}
		err := a.guard.handleAnswer(ctx, rec, a.handler, fresh)
		close(done)
		a.mu.Lock()
		if a.last[lane] == done {
			delete(a.last, lane)
		}
		a.mu.Unlock()
		for err != nil && ctx.Err() == nil {
			a.guard.cfg.Log.Error("cannot do what follows from an approval; trying again", "approval", rec.ID, "state", rec.State, "error", err)
			sleep(ctx, retryDelay)
			if now, gone := a.guard.cfg.Desk.Get(rec.Agent, rec.ID); gone == nil && now.Seq != rec.Seq {
				return
			}
			err = a.guard.handleAnswer(ctx, rec, a.handler, fresh)
		}
	})
}

// handleAnswer acts on a record: it runs the command or tells the agent that it will not
// run. After an error, the caller tries again later. Fresh: the record changed since this start
// of the program.
func (g *Guard) handleAnswer(ctx context.Context, rec approval.Record, h Handler, fresh bool) error {
	n, ok := rec.Noted()
	if rec.State == approval.Pending || !ok {
		return nil
	}
	g.mu.Lock()
	env, attended, told := g.env[rec.ID], g.attended[rec.ID] > 0, g.denialReported[rec.ID]
	delete(g.denialReported, rec.ID)
	g.mu.Unlock()
	// It may have been used since, for example by the call that waited for it.
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
	if attended { // the waiting call runs the command
		return nil
	}
	cmd, run := n.Command, h.Run
	cmd.Approval, cmd.Env = rec.ID, env
	unknown := n.Env && env == nil
	switch {
	case rec.State == approval.Consumed && (fresh || unknown):
		return nil // the call that used it runs the command
	case unknown:
		return h.Denied(ctx, rec, "its environment, which is not written down, is gone with a restart; run it again, which needs no other approval as long as this one is good", false)
	case rec.State == approval.Consumed, !fresh && lapsed: // not known whether the command was started
		ctx, run = context.WithValue(ctx, resumed{}, true), h.Resume
	default:
		ctx = context.WithValue(ctx, firstUse{}, true)
	}
	err := run(ctx, rec, cmd)
	if err == nil || ctx.Err() != nil || errors.Is(err, errUsed) || errors.Is(err, corral.ErrLost) { // lost: its session will show what happened
		return nil
	}
	now, gone := g.cfg.Desk.Get(rec.Agent, rec.ID)
	used := gone == nil && now.State == approval.Consumed
	switch {
	case used && now.CommandID != cmd.ID:
		return nil // used by the same command, which the agent sent again
	case used && rec.State == approval.Allowed: // used by this attempt, so another one would be refused
	case errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrNoNode):
		return err
	case gone == nil && now.State == approval.Allowed:
		if _, err := g.cfg.Desk.Void(rec.ID, err.Error()); err != nil {
			return err
		}
		return nil // it is denied now, and that is the next change to act on
	}
	return h.Denied(ctx, rec, err.Error(), false)
}

// firstUse is the key of contexts in which an approval must be unused. Otherwise the
// command that used it may use it again. Serve sets it: that command may have ended and be
// forgotten, and Serve must not run it twice.
type firstUse struct{}

// resumed is the key of contexts in which a command may use its approval again: nobody knows
// whether an earlier life started it.
type resumed struct{}

var errUsed = corral.Errorf(corral.ErrDenied, "ask for a new approval", "the approval was used already")

const (
	maxRan = 4096
	// useAgain is how long after its use an approval is good for the same command once more,
	// if that was not started.
	useAgain = 10 * time.Minute
)

// use uses an approval up. The command that used it may use it again only if it was not
// started: one that is over, and was removed, would run once more.
func (g *Guard) use(ctx context.Context, rec approval.Record, claim approval.Claim) error {
	if err := g.using.Take(ctx); err != nil {
		return err
	}
	defer g.using.Release()
	key := ranKey(claim.Agent, claim.CommandID)
	if now, err := g.cfg.Desk.Get(rec.Agent, rec.ID); err == nil && now.State == approval.Consumed {
		ran, known := g.ran.Get(key)
		first, again := ctx.Value(firstUse{}) != nil, ctx.Value(resumed{}) != nil
		if first || now.CommandID == claim.CommandID && !again && (ran || !known && time.Since(now.ConsumedAt) > useAgain) {
			return errUsed
		}
	}
	_, err := g.cfg.Desk.Consume(ctx, rec.ID, claim)
	if err == nil {
		g.ran.Put(key, false)
	}
	return err
}

func ranKey(agent, id string) string { return agent + " " + id }

// Began notes that a command was started, which may have used an approval.
func (g *Guard) Began(agent, id string) {
	if _, used := g.ran.Get(ranKey(agent, id)); used {
		g.ran.Put(ranKey(agent, id), true)
	}
}

// Await waits for the answer to an approval. It answers with the result of approve, unless
// there was another answer before. If the command is allowed, run has to start it, with
// Record.StartID and the approval; Serve does not run it while Await waits. An approval
// that run did not use is used up afterwards, so that the command does not run after the
// call has ended. If approve fails, the approval stays pending, and Serve runs the command
// once it is allowed.
func (g *Guard) Await(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error), run func(approval.Record) error) (approval.Record, error) {
	g.attend(rec.ID, 1)
	defer g.attend(rec.ID, -1)
	rec, err := g.answered(ctx, rec, approve)
	if err == nil && (rec.State == approval.Denied || rec.State == approval.Expired) {
		g.noteDenialReported(rec.ID)
	}
	if err != nil || rec.State != approval.Allowed {
		return rec, err
	}
	err = run(rec)
	g.abandon(ctx, rec)
	return rec, err
}

// abandon uses up an approval that a call did not use, unless another call waits for the
// same approval.
func (g *Guard) abandon(ctx context.Context, rec approval.Record) {
	g.mu.Lock()
	others := g.attended[rec.ID] > 1
	g.mu.Unlock()
	if now, err := g.cfg.Desk.Get(rec.Agent, rec.ID); others || err != nil || now.State != approval.Allowed {
		return
	}
	claim := approval.Claim{CommandID: cmp.Or(rec.StartID(), corral.NewID()), Agent: rec.Agent, Host: rec.Host, Node: rec.Node, Binding: rec.Binding}
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
		if err != nil && now.State != "" && now.State != approval.Pending { // answered elsewhere before, or expired
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

// noteDenialReported notes that a call was told that its command will not run. Only Serve
// reads and removes the notes; it may not run, so their number is bounded.
func (g *Guard) noteDenialReported(id string) {
	const most = 1000
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.denialReported) >= most {
		clear(g.denialReported)
	}
	g.denialReported[id] = true
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
