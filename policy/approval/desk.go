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
	"github.com/corral-exec/corral/policy"
)

// What applies where an option is not set.
const (
	DefaultExpiry    = 30 * time.Minute
	defaultPending   = 256
	defaultPerAgent  = 64
	lingering        = 24 * time.Hour // how long a settled record can be looked up
	lingeringRecords = 1000
	lingeringBytes   = 32 << 20 // of the texts of settled records
	pendingBytes     = 64 << 20 // and of those that are not
	maxWho           = 200      // characters of who answered
	maxVoid          = 1000     // and of why nothing came of it
	maxNames         = 256      // bytes of an agent, node or session
)

// Options are those of a Desk.
type Options struct {
	Dir string // where the approvals are kept; for one Desk at a time

	// Expiry is how long there is for an answer, and then for using what was
	// allowed. 0 is DefaultExpiry.
	Expiry time.Duration
	// MaxPending and MaxPerAgent bound the requests without an answer; 0: 256,
	// and 64 of one agent.
	MaxPending, MaxPerAgent int

	// Remember is called with the record and the rules to remember when
	// somebody answers AllowAlways, before the answer counts: an error is
	// that of the answer, and the request stays pending. Nil: AllowAlways is
	// not available.
	Remember func(context.Context, Record, []policy.Rule) error

	Log *slog.Logger // nil: none
}

// A Desk is where approvals are asked for and given. Its methods may be called at
// any time. What they return is on disk.
type Desk struct {
	opts Options
	life context.Context //nolint:containedctx // ends with Close
	end  context.CancelFunc

	answering sync.Mutex // one answer at a time

	settledBytes, pendingBytes int64 // of texts, at most

	mu      sync.Mutex
	j       *journal
	records map[string]*Record // by ID; never changed, but replaced
	busy    string             // ID of the request that is being answered
	seq     int64
	changed chan struct{} // closed with the next change
	timer   *time.Timer
}

var errClosed = corral.Errorf(corral.ErrUnavailable, "", "the desk of approvals is closed")

// OpenDesk opens the desk. It is an ErrConflict if another Desk has the directory,
// and an ErrUnavailable if what is there is not what was written.
func OpenDesk(opts Options) (*Desk, error) {
	opts.Expiry = cmp.Or(opts.Expiry, DefaultExpiry)
	opts.MaxPending = cmp.Or(opts.MaxPending, defaultPending)
	opts.MaxPerAgent = cmp.Or(opts.MaxPerAgent, defaultPerAgent)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	d := &Desk{opts: opts, settledBytes: lingeringBytes, pendingBytes: pendingBytes, records: map[string]*Record{}, changed: make(chan struct{})}
	j, cut, err := openJournal(opts.Dir, func(l line) error {
		d.seq = max(d.seq, l.Seq)
		if r := l.Record; r != nil {
			d.seq = max(d.seq, r.Seq)
			d.records[r.ID] = r
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if cut > 0 {
		opts.Log.Warn("the last line of the approvals was cut short and is dropped; nobody was told what it was to say", "dir", opts.Dir, "bytes", cut)
	}
	d.j = j
	d.life, d.end = context.WithCancel(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	if j.size == 0 {
		if err := j.add(line{Version: journalVersion, Seq: d.seq}); err != nil {
			d.end()
			return nil, errors.Join(err, j.close())
		}
	}
	d.tidy()
	return d, nil
}

// Close ends every call that waits. What is pending stays so for the next Desk.
func (d *Desk) Close() error {
	d.answering.Lock()
	defer d.answering.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return nil
	}
	d.end()
	if d.timer != nil {
		d.timer.Stop()
	}
	return d.j.close()
}

// Ask asks for an approval. For what is pending already it returns that record.
// Too many are an ErrUnavailable.
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

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return Record{}, errClosed
	}
	d.tidy()
	pending, ofAgent, size, same := 0, 0, int64(0), req.Binding.Digest()
	for _, r := range d.records {
		if r.State != Pending {
			continue
		}
		pending++
		size += r.weight()
		if r.Agent != req.Agent {
			continue
		}
		ofAgent++
		if r.SessionKey == req.SessionKey && r.Host == req.Host && sameName(r.Node, r.Binding, req.Node, req.Binding) && r.Binding.Digest() == same {
			return *r, nil
		}
	}
	if pending >= d.opts.MaxPending || ofAgent >= d.opts.MaxPerAgent || size > d.pendingBytes {
		return Record{}, corral.Errorf(corral.ErrUnavailable, "answer some of them, or wait until they expire",
			"too many approvals are pending: %d, %d of them of the agent %s", pending, ofAgent, quote(req.Agent))
	}
	now := time.Now()
	r := Record{
		ID: corral.NewID(), Slug: newSlug(d.slugTaken), State: Pending,
		Agent: req.Agent, Host: req.Host, Node: req.Node, SessionKey: req.SessionKey,
		Command: req.Command.Command, Args: slices.Clone(req.Command.Args), Cwd: req.Command.Dir, Env: req.Binding.Env, PathPrepend: slices.Clone(req.PathPrepend),
		Decision: req.Decision, Binding: req.Binding,
		Previews: previews, AllowedDecisions: allowed, AlwaysUnavailable: why,
		Note: req.Note, CreatedAt: now.UTC(), ExpiresAt: now.UTC().Add(d.opts.Expiry),
	}
	return d.put(r)
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

// put makes a record what counts, and returns it with its number. mu is held.
func (d *Desk) put(r Record) (Record, error) {
	r.Seq = d.seq + 1
	if err := d.j.add(line{Record: &r}); err != nil {
		return Record{}, err
	}
	d.show(&r)
	d.tidy()
	return r, nil
}

func (d *Desk) show(r *Record) {
	d.seq = r.Seq
	d.records[r.ID] = r
	close(d.changed)
	d.changed = make(chan struct{})
}

// tidy has what is due expire, forgets what is old, writes the journal anew if it
// has grown, and sets the timer for the next time. mu is held.
func (d *Desk) tidy() {
	now := time.Now()
	var next time.Time
	for _, r := range d.byAge() {
		if r.State != Pending && r.State != Allowed || r.ID == d.busy {
			continue
		}
		if r.ExpiresAt.After(now) {
			if next.IsZero() || r.ExpiresAt.Before(next) {
				next = r.ExpiresAt
			}
			continue
		}
		// It has expired whether that can be written or not: it says so itself.
		expired := *r
		expired.State, expired.Seq = Expired, d.seq+1
		if err := d.j.add(line{Record: &expired}); err != nil {
			d.opts.Log.Error("cannot write that an approval expired", "approval", r.Slug, "error", err)
		}
		d.show(&expired)
	}
	d.forget(now)
	if d.j.grown() {
		if err := d.j.replace(d.snapshot()); err != nil {
			d.opts.Log.Error("cannot write the approvals anew", "dir", d.opts.Dir, "error", err)
		}
	}
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !next.IsZero() {
		d.timer = time.AfterFunc(next.Sub(now), d.wake)
	}
}

func (d *Desk) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() == nil {
		d.tidy()
	}
}

// forget drops settled records that are old, or more than are kept.
func (d *Desk) forget(now time.Time) {
	kept, size := 0, int64(0)
	for _, r := range slices.Backward(d.byAge()) {
		if r.State == Pending || r.State == Allowed || r.Granted && r.ExpiresAt.After(now) {
			continue
		}
		kept++
		size += r.weight()
		at := slices.MaxFunc([]time.Time{r.CreatedAt, r.AnsweredAt, r.ConsumedAt}, time.Time.Compare)
		if r.State == Expired {
			at = r.ExpiresAt
		}
		if kept > lingeringRecords || size > d.settledBytes || now.Sub(at) > lingering {
			delete(d.records, r.ID)
		}
	}
}

// weight is about how many bytes of text a record has.
func (r *Record) weight() int64 {
	n := 1024 + len(r.Command)
	add := func(words []string) {
		for _, w := range words {
			n += len(w) + 16
		}
	}
	add(r.Args)
	for _, s := range r.Decision.Segments {
		n += len(s.Text)
		add(s.Argv)
	}
	for _, p := range r.Previews {
		for _, e := range p.Entries {
			n += len(e.Command)
			add(e.Args)
		}
	}
	return int64(n)
}

// byAge returns the records in the order of their last change.
func (d *Desk) byAge() []*Record {
	list := make([]*Record, 0, len(d.records))
	for _, r := range d.records {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

func (d *Desk) snapshot() []line {
	lines := []line{{Version: journalVersion, Seq: d.seq}}
	for _, r := range d.byAge() {
		lines = append(lines, line{Record: r})
	}
	return lines
}

// Get finds a record of an agent ("": of any) by its ID, its slug, or a beginning
// of one of them that no other has, in any case. Those that can be answered
// count first.
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
	if d.life.Err() == nil {
		d.tidy()
	}
	return f.of(d.records)
}

// of selects.
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

// Changes returns the records of which the last change has a number greater than
// after, in the order of those changes, and blocks until there is one. Next is
// what to pass as after then. A negative after means: from now on.
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
	for {
		d.mu.Lock()
		r, ok := d.records[id]
		more := d.changed
		d.mu.Unlock()
		switch {
		case !ok:
			return Record{}, corral.Errorf(corral.ErrNotFound, "", "unknown or expired approval id %s", quote(id))
		case r.State != Pending:
			return *r, nil
		}
		if err := d.wait(ctx, more); err != nil {
			return Record{}, err
		}
	}
}
