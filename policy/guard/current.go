package guard

import (
	"context"
	"sync"
	"time"

	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// nodesTime is the longest time that Current waits for nodes.
const nodesTime = 2 * time.Second

// Current returns the records and decides anew on pending ones, since a rule may have
// been added after they were asked for. It stores nothing. A record stays as it is if
// another gateway asked for it, or if its node or its environment is not available.
func (g *Guard) Current(ctx context.Context, recs []approval.Record) []approval.Record {
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	var all sync.WaitGroup
	for i := range recs {
		if recs[i].State == approval.Pending && g.cfg.Desk.Own(recs[i]) {
			all.Go(func() { g.decideAnew(ctx, &recs[i]) })
		}
	}
	all.Wait()
	return recs
}

func (g *Guard) decideAnew(ctx context.Context, rec *approval.Record) {
	n, ok := rec.Noted()
	if !ok || n.Route == nil {
		return
	}
	g.mu.Lock()
	n.Command.Env = g.env[rec.ID]
	g.mu.Unlock()
	if n.Env && n.Command.Env == nil {
		return
	}
	e, err := g.Explain(ctx, rec.Agent, n.Command, *n.Route)
	if err != nil {
		return
	}
	rec.Decision = e.Decision
	switch e.Decision.Outcome {
	case policy.Allowed:
		rec.Decision.Reason = "asked again it would run by itself: " + e.Decision.Reason
	case policy.Denied:
		rec.Decision.Reason = "asked again it would be denied: " + e.Decision.Reason
	}
}
