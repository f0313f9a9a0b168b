package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// Answer answers a request by its full ID. The first answer counts. For a later one,
// Answer returns the record with an ErrConflict that names the first answer and its
// author. An answer that is not among the AllowedDecisions is an ErrDenied.
func (d *Desk) Answer(ctx context.Context, id string, a Answer) (Record, error) {
	if err := d.answering.Take(ctx); err != nil {
		return Record{}, err
	}
	defer d.answering.Release()
	r, rules, err := d.begin(id, &a)
	if err != nil {
		return r, err
	}
	if err = context.Cause(ctx); err == nil && a.Decision == AllowAlways && d.Own(r) {
		err = d.opts.Remember(ctx, r, rules)
	}
	defer d.notBusy()
	if err != nil {
		return r, err
	}
	for {
		now := time.Now().UTC()
		next := r
		next.Verdict, next.Scope, next.AnsweredBy, next.AnsweredAt = a.Decision, a.Scope, a.By, now
		next.State, next.Remembered = Denied, a.Decision == AllowAlways && d.Own(r)
		if a.Decision != Deny {
			next.State, next.ExpiresAt = Allowed, now.Add(d.expiry())
		}
		if next, err = d.put(next); !errors.Is(err, ErrStale) {
			return next, err
		}
		// It was asked for again, for another reason; or another gateway answered first.
		if r, _, err = d.begin(id, &a); err != nil {
			return r, err
		}
	}
}

// notBusy ends an answer. If the request is still pending after its time, it expires now.
func (d *Desk) notBusy() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = ""
	d.tidy()
	d.show()
}

// begin checks an answer, and keeps the request from expiring until notBusy.
func (d *Desk) begin(id string, a *Answer) (Record, []policy.Rule, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return Record{}, nil, errClosed
	}
	d.tidy()
	there, ok := d.records[id]
	if !ok {
		return Record{}, nil, corral.Errorf(corral.ErrNotFound, "see which are pending: corral approvals ls", "unknown or expired approval id %s", quote(id))
	}
	r := *there
	switch {
	case r.State == Expired && r.Verdict == "":
		return r, nil, corral.Errorf(corral.ErrNotFound, "have the command asked for again", "unknown or expired approval id: %s", r.Settled())
	case r.State != Pending:
		return r, nil, corral.Errorf(corral.ErrConflict, "", "%s", r.Settled())
	case !slices.Contains(Verdicts, a.Decision):
		return r, nil, corral.Errorf(corral.ErrInvalid, "use allow-once, allow-always or deny", "%s is no decision", quote(string(a.Decision)))
	case a.Decision != AllowAlways && a.Scope != "":
		return r, nil, corral.Errorf(corral.ErrInvalid, "leave out the scope, or use allow-always", "a scope is of allow-always, not of %s", a.Decision)
	case !slices.Contains(r.AllowedDecisions, a.Decision):
		return r, nil, corral.Errorf(corral.ErrDenied, "use allow-once or deny", "%s", r.AlwaysUnavailable)
	}
	a.By = cmp.Or(oneLine(a.By, maxWho), "somebody")
	var rules []policy.Rule
	if a.Decision == AllowAlways {
		a.Scope = cmp.Or(a.Scope, ScopeExact)
		i := slices.IndexFunc(r.Previews, func(p Preview) bool { return p.Scope == a.Scope })
		switch {
		case i < 0:
			return r, nil, corral.Errorf(corral.ErrInvalid, "use exact, subcommand or program", "%s is no scope", quote(string(a.Scope)))
		case r.Previews[i].Unavailable != "":
			return r, nil, corral.Errorf(corral.ErrDenied, "use another scope, or allow-once", "allow-always is unavailable in the scope %s: %s", a.Scope, r.Previews[i].Unavailable)
		case d.opts.Remember == nil && d.Own(r):
			return r, nil, corral.Errorf(corral.ErrDenied, "use allow-once or deny", "allow-always is unavailable because there is no file of approvals to remember it in")
		}
		rules = r.Previews[i].Entries
	}
	d.busy = id
	return r, rules, nil
}

// Consume uses up an approval. One command can use it, and can use it again if it is
// started again. For another command, or if something of the Binding has changed, it
// returns an ErrDenied that says why.
func (d *Desk) Consume(ctx context.Context, id string, c Claim) (Record, error) {
	if err := context.Cause(ctx); err != nil {
		return Record{}, err
	}
	if err := corral.ValidateID(c.CommandID); err != nil {
		return Record{}, err
	}
	return d.change(id, func(r Record, there bool) (Record, error) {
		if !there {
			return Record{}, corral.Errorf(corral.ErrDenied, "ask for a new approval", "unknown or expired approval id %s", quote(id))
		}
		again := r.State == Consumed && r.CommandID == c.CommandID
		switch {
		case r.State != Allowed && !again:
			return r, corral.Errorf(corral.ErrDenied, "ask for a new approval", "it is not approved: %s", r.Settled())
		case !d.Usable(r):
			return r, corral.Errorf(corral.ErrDenied, "ask for a new approval", "it was approved for the machine of the gateway %s", quote(r.Gateway))
		}
		if err := r.Check(c); err != nil {
			return r, err
		}
		if again {
			return r, errSame
		}
		r.State, r.CommandID, r.ConsumedAt = Consumed, c.CommandID, time.Now().UTC()
		return r, nil
	})
}

// Void denies an allowed, unused approval because its command can never be started. A
// record in any other state is left as it is.
func (d *Desk) Void(id, why string) (Record, error) {
	return d.change(id, func(r Record, there bool) (Record, error) {
		switch {
		case !there:
			return Record{}, corral.Errorf(corral.ErrNotFound, "", "unknown or expired approval id %s", quote(id))
		case r.State != Allowed:
			return r, errSame
		}
		r.State, r.Void = Denied, oneLine(why, maxVoid)
		return r, nil
	})
}

// sameName reports whether two commands are for a node of one name. If a binding has the
// id of the node, the name does not matter, since it may change.
func sameName(a string, of Binding, b string, with Binding) bool {
	return a == b || of.Node != "" || with.Node != ""
}

func place(h corral.Host, node string) string {
	if node == "" {
		return string(h)
	}
	return string(h) + " " + quote(node)
}
