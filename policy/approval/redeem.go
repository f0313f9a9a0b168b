package approval

import (
	"context"
	"time"

	"github.com/corral-exec/corral"
)

// maxGranted is the most approvals of gateways that are kept until they expire.
const maxGranted = 4096

// A Given is an approval that was given at a gateway, for a command on this host.
type Given struct {
	ID        string // the ID at the gateway
	Slug      string // the slug at the gateway; used here too, if it is valid and free
	CommandID string
	Verdict   Verdict
	Scope     Scope
	By        string    // name of the person who answered, as the gateway states it
	Until     time.Time // it expires then
}

// Redeem notes, on disk, that a command uses an approval that was given at a gateway. If
// another command used it, or it is not a gateway's, it returns an ErrDenied. Again: this
// command has used it before.
func (d *Desk) Redeem(ctx context.Context, g Given, req Request) (again bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	for _, id := range []string{g.ID, g.CommandID} {
		if err := corral.ValidateID(id); err != nil {
			return false, err
		}
	}
	if err := req.validate(); err != nil {
		return false, err
	}
	_, err = d.change(g.ID, func(was Record, there bool) (Record, error) {
		now := time.Now()
		if again = there; there {
			switch {
			case !was.Granted:
				return was, corral.Errorf(corral.ErrDenied, "ask for a new approval", "the approval is none that a gateway gave")
			case was.CommandID != g.CommandID || was.Agent != req.Agent || was.Binding.Digest() != req.Binding.Digest():
				return was, corral.Errorf(corral.ErrDenied, "ask for a new approval", "the approval was used already, by the command %s", was.CommandID)
			}
			return was, errSame
		}
		if !g.Until.After(now) {
			return was, corral.Errorf(corral.ErrDenied, "ask for a new approval", "the approval was good until %s", g.Until.UTC().Format(time.RFC3339))
		}
		granted, size := 0, int64(0)
		for _, r := range d.records {
			if r.Granted && r.ExpiresAt.After(now) {
				granted++
				size += r.weight()
			}
		}
		if granted >= maxGranted || size > d.pendingBytes {
			return was, corral.Errorf(corral.ErrUnavailable, "try again in some minutes", "%d approvals were used here in a short time, which have to be remembered", granted)
		}
		slug := g.Slug
		if !isSlug(slug) || d.slugTaken(slug) {
			slug = newSlug(d.slugTaken)
		}
		return Record{
			ID: g.ID, Slug: slug, State: Consumed, Granted: true, Gateway: d.opts.Gateway,
			Agent: req.Agent, Host: req.Host, Node: req.Node,
			Command: req.Command.Command, Args: req.Command.Args, Cwd: req.Command.Dir, Env: req.Binding.Env, PathPrepend: req.PathPrepend,
			Decision: req.Decision, Binding: req.Binding, Previews: []Preview{}, AllowedDecisions: []Verdict{},
			CreatedAt: now.UTC(), ExpiresAt: g.Until.UTC(),
			Verdict: g.Verdict, Scope: g.Scope, AnsweredBy: oneLine(g.By, maxWho), AnsweredAt: now.UTC(),
			CommandID: g.CommandID, ConsumedAt: now.UTC(),
		}, nil
	})
	return again && err == nil, err
}
