package approval

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/policy"
)

// Defaults of the options, and bounds.
const (
	DefaultExpiry    = 30 * time.Minute
	defaultPending   = 256
	defaultPerAgent  = 64
	lingering        = 24 * time.Hour // how long a settled record can be looked up
	lingeringRecords = 1000
	lingeringBytes   = 32 << 20 // of the texts of settled records
	pendingBytes     = 64 << 20 // and of those that are not
	maxWho           = 200      // characters of Answer.By
	maxVoid          = 1000     // characters of Record.Void
	maxNames         = 256      // bytes of an agent, node or session
)

// Options are those of a Desk.
type Options struct {
	Dir string // where the approvals are kept; for one Desk at a time
	// Store keeps them in place of Dir, for the desks of several gateways. Gateway
	// names this desk's gateway: an approval that was asked for at one gateway can be
	// used only there, unless it is for a node. The Desk closes the Store.
	Store   Store
	Gateway string

	// Expiry is the time for an answer, and then again the time for using the
	// approval. It is called for each request and answer. Nil, and 0: DefaultExpiry.
	Expiry func() time.Duration
	// MaxPending and MaxPerAgent bound the requests without an answer; 0: 256,
	// and 64 of one agent.
	MaxPending, MaxPerAgent int

	// Remember stores the rules of an AllowAlways. It is called before the answer
	// counts: after an error, Answer returns it and the request stays pending. If the
	// request was answered at the desk of another gateway, Remember is called when this
	// desk learns of it, and again until it succeeds. Nil: AllowAlways is not available.
	Remember func(context.Context, Record, []policy.Rule) error

	Log *slog.Logger // nil: none
}

// A Desk is where approvals are asked for and given. Its methods may be called at any
// time. A change is on disk before they return.
type Desk struct {
	opts  Options
	store Store
	life  context.Context //nolint:containedctx // ends with Close
	end   context.CancelFunc
	owned sync.WaitGroup

	asking    turn.Lock // one call of Ask at a time
	answering turn.Lock // one call of Answer at a time

	settledBytes, pendingBytes int64 // of texts, at most

	mu        sync.Mutex
	records   map[string]*Record   // by ID; never changed, but replaced
	todo      map[string]time.Time // IDs of records whose change is still to be stored, and from when on
	expired   map[string]time.Time // when the desk noticed that a record had expired
	forgotten []Record             // dropped here, but not yet in the store
	busy      string               // ID of the request that is being answered
	seq       int64
	changed   chan struct{} // closed with the next change
	stir      chan struct{} // wakes look
}

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the desk of approvals is closed")

// OpenDesk opens the desk. It returns an ErrConflict if another Desk has the directory,
// and an ErrUnavailable if its content is damaged.
func OpenDesk(opts Options) (*Desk, error) {
	opts.MaxPending = cmp.Or(opts.MaxPending, defaultPending)
	opts.MaxPerAgent = cmp.Or(opts.MaxPerAgent, defaultPerAgent)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	d := &Desk{
		opts: opts, store: opts.Store, asking: turn.New(), answering: turn.New(), settledBytes: lingeringBytes, pendingBytes: pendingBytes,
		records: map[string]*Record{}, todo: map[string]time.Time{}, expired: map[string]time.Time{}, changed: make(chan struct{}), stir: make(chan struct{}, 1),
	}
	if d.store == nil {
		var err error
		if d.store, err = openFiles(opts.Dir, opts.Log); err != nil {
			return nil, err
		}
	}
	d.life, d.end = context.WithCancel(context.Background())
	if err := d.store.Follow(d.apply); err != nil {
		d.end()
		return nil, errors.Join(err, d.store.Close())
	}
	d.owned.Go(d.look)
	return d, nil
}

// Close ends every call that waits. Pending requests stay pending for the next Desk.
func (d *Desk) Close() error {
	d.answering <- struct{}{}
	defer d.answering.Release()
	d.mu.Lock()
	closed := d.life.Err() != nil
	d.end()
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.owned.Wait()
	return d.store.Close()
}

func (d *Desk) expiry() time.Duration {
	if d.opts.Expiry == nil {
		return DefaultExpiry
	}
	return cmp.Or(d.opts.Expiry(), DefaultExpiry)
}

// Own reports whether a record was asked for here, and not at another gateway.
func (d *Desk) Own(r Record) bool { return r.Gateway == d.opts.Gateway }

// Usable reports whether an approval can be used at this gateway: it is for a node, or
// was asked for here.
func (d *Desk) Usable(r Record) bool { return d.Own(r) || r.Host == corral.HostNode }

// Ask asks for an approval. If the same request is pending already, it returns that
// record. If too many are pending, it returns an ErrUnavailable.
func (d *Desk) Ask(ctx context.Context, req Request) (Record, error) {
	if err := context.Cause(ctx); err != nil {
		return Record{}, err
	}
	if err := req.validate(); err != nil {
		return Record{}, err
	}
	previews := req.Previews
	if previews == nil {
		previews = Previews(req.Command, req.Decision, req.Again)
	}
	allowed, why := decisions(req.Decision, previews, d.opts.Remember != nil)

	if err := d.asking.Take(ctx); err != nil {
		return Record{}, err
	}
	defer d.asking.Release()
	now := time.Now()
	r := Record{
		ID: cmp.Or(req.ID, corral.NewID()), State: Pending, Gateway: d.opts.Gateway,
		Agent: req.Agent, Host: req.Host, Node: req.Node, SessionKey: req.SessionKey,
		Command: req.Command.Command, Args: slices.Clone(req.Command.Args), Cwd: req.Command.Dir, Description: req.Description, Env: req.Binding.Env, PathPrepend: slices.Clone(req.PathPrepend),
		Decision: req.Decision, Binding: req.Binding,
		Previews: previews, AllowedDecisions: allowed, AlwaysUnavailable: why,
		Note: req.Note, CreatedAt: now.UTC(), ExpiresAt: now.UTC().Add(d.expiry()),
	}
	there, err := d.admit(&r)
	switch {
	case err != nil:
		return r, err
	case there && r.Decision.Reason != req.Decision.Reason:
		return d.change(r.ID, func(r Record, _ bool) (Record, error) {
			if r.State != Pending {
				return r, errSame
			}
			// A rule was added or removed since. Keep the possible answers and the rules
			// to remember as the person who answers has seen them.
			r.Decision = req.Decision
			return r, nil
		})
	case there:
		return r, nil
	}
	return d.put(r)
}

// admit gives a request a slug, or returns an error if too many requests are pending. If the same request is pending already, it sets r to that one.
func (d *Desk) admit(r *Record) (there bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		*r = Record{}
		return false, errClosed
	}
	d.tidy()
	pending, ofAgent, size, same := 0, 0, int64(0), r.Binding.Digest()
	for _, old := range d.records {
		if old.State != Pending {
			continue
		}
		pending++
		size += old.weight()
		if old.Agent != r.Agent {
			continue
		}
		ofAgent++
		// The same request of another gateway does not count: that gateway would run it.
		if d.Own(*old) && old.SessionKey == r.SessionKey && old.Host == r.Host && sameName(old.Node, old.Binding, r.Node, r.Binding) && old.Binding.Digest() == same && (old.Binding.Stdin || !r.Binding.Stdin) {
			*r = *old
			return true, nil
		}
	}
	if pending >= d.opts.MaxPending || ofAgent >= d.opts.MaxPerAgent || size > d.pendingBytes {
		err := corral.Errorf(corral.ErrUnavailable, "answer some of them, or wait until they expire",
			"too many approvals are pending: %d, %d of them of the agent %s", pending, ofAgent, quote(r.Agent))
		*r = Record{}
		return false, err
	}
	r.Slug = newSlug(d.slugTaken)
	return false, nil
}

// maxNote bounds a note, in bytes. It is part of a line of the journal.
const maxNote = 3 << 20

func (req Request) validate() error {
	for _, s := range []string{req.Agent, string(req.Host), req.Node, req.SessionKey} {
		if len(s) > maxNames {
			return corral.Errorf(corral.ErrInvalid, "", "%s is longer than %d bytes", quote(s), maxNames)
		}
	}
	if len(req.Note) > maxNote {
		return corral.Errorf(corral.ErrInvalid, "", "the note has more than %d bytes", maxNote)
	}
	if (req.Command.Command == "") == (len(req.Command.Args) == 0) {
		return corral.Errorf(corral.ErrInvalid, "set one of them", "an approval is for shell text or for a list of arguments")
	}
	if want := sumCommand(req.Command); req.Binding.Command != want || req.Binding.Dir != req.Command.Dir {
		return corral.Errorf(corral.ErrInvalid, "use the binding of this command", "the approval is bound to another command")
	}
	return nil
}

func (d *Desk) slugTaken(slug string) bool {
	for _, r := range d.records {
		if r.Slug == slug {
			return true
		}
	}
	return false
}

// Get finds a record of an agent ("": of any) by its ID, its slug, or a unique prefix of
// one of them, in any case. Records that can be answered come first.
func (d *Desk) Get(agent, ref string) (Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return Record{}, errClosed
	}
	d.tidy()
	return find(d.records, agent, ref)
}

func find(records map[string]*Record, agent, ref string) (Record, error) {
	ref = strings.ToLower(strings.TrimSpace(ref))
	var pending, settled []*Record
	for _, r := range records {
		switch {
		case ref == "" || agent != "" && r.Agent != agent:
		case r.ID == ref || r.Slug == ref:
			return *r, nil
		case !strings.HasPrefix(r.ID, ref) && !strings.HasPrefix(r.Slug, ref):
		case r.State == Pending:
			pending = append(pending, r)
		default:
			settled = append(settled, r)
		}
	}
	if len(pending) == 0 {
		pending = settled
	}
	switch len(pending) {
	case 0:
		return Record{}, corral.Errorf(corral.ErrNotFound, "see which are pending: corral approvals ls", "unknown or expired approval id %s", quote(ref))
	case 1:
		return *pending[0], nil
	}
	return Record{}, corral.Errorf(corral.ErrInvalid, "use the full id", "ambiguous approval id prefix; use the full id: %s is the beginning of %d", quote(ref), len(pending))
}

// List returns the records that a filter selects, the oldest first.
func (d *Desk) List(f Filter) []Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tidy()
	return f.of(d.records)
}

// of returns the records that the filter selects, the oldest first.
func (f Filter) of(records map[string]*Record) []Record {
	list := []Record{}
	for _, r := range records {
		if (f.Agent == "" || f.Agent == r.Agent) && (f.SessionKey == "" || f.SessionKey == r.SessionKey) && (f.State == "" || f.State == r.State) {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Changes returns the records whose last change has a number greater than after, in
// the order of those changes, and blocks until there is one. Pass next as after in
// the following call. A negative after means: from now on.
func (d *Desk) Changes(ctx context.Context, after int64) (changed []Record, next int64, err error) {
	for {
		d.mu.Lock()
		if after < 0 {
			after = d.seq
		}
		next = max(after, d.seq)
		for _, r := range d.byAge() {
			if r.Seq > after {
				changed = append(changed, *r)
			}
		}
		more := d.changed
		d.mu.Unlock()
		if len(changed) > 0 {
			return changed, next, nil
		}
		after = next
		if err := d.wait(ctx, more); err != nil {
			return nil, after, err
		}
	}
}

func (d *Desk) wait(ctx context.Context, more <-chan struct{}) error {
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.life.Done():
		return errClosed
	}
}

// Wait returns a record when it is no longer pending.
func (d *Desk) Wait(ctx context.Context, id string) (Record, error) {
	return d.WaitWhile(ctx, id, Pending)
}

// WaitWhile returns a record when it is no longer in that state.
func (d *Desk) WaitWhile(ctx context.Context, id string, s State) (Record, error) {
	for {
		d.mu.Lock()
		r, ok := d.records[id]
		more := d.changed
		d.mu.Unlock()
		switch {
		case !ok:
			return Record{}, corral.Errorf(corral.ErrNotFound, "", "unknown or expired approval id %s", quote(id))
		case r.State != s:
			return *r, nil
		}
		if err := d.wait(ctx, more); err != nil {
			return Record{}, err
		}
	}
}
