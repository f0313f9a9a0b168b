package approval

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

const (
	// anothersTurn is how long this desk leaves it to another gateway's desk to store
	// that a request of that gateway has expired.
	anothersTurn = 10 * time.Second
	retryAfter   = 5 * time.Second // until a failed change is stored again
)

// put stores the change of a record, and returns the stored record.
func (d *Desk) put(r Record) (Record, error) {
	r.Version++
	kept, err := d.store.Put(d.life, r)
	if err != nil {
		kept = Record{}
	}
	d.mu.Lock()
	d.tidy()
	d.mu.Unlock()
	d.tidyStore()
	return kept, err
}

// errSame: an edit changes nothing.
var errSame = errors.New("there is nothing to change")

// change edits a record and stores it; if another desk changed it meanwhile, it starts
// over, so edit may be called again. edit gets the current record; if there is none, a
// record with only the ID. If edit fails, nothing is changed, and change returns edit's
// result.
func (d *Desk) change(id string, edit func(r Record, there bool) (Record, error)) (Record, error) {
	for {
		next, err := d.edited(id, edit)
		switch {
		case errors.Is(err, errSame):
			return next, nil
		case err != nil:
			return next, err
		}
		if next, err = d.put(next); !errors.Is(err, ErrStale) {
			return next, err
		}
	}
}

func (d *Desk) edited(id string, edit func(r Record, there bool) (Record, error)) (Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return Record{}, errClosed
	}
	d.tidy()
	if r := d.records[id]; r != nil {
		return edit(*r, true)
	}
	return edit(Record{ID: id}, false)
}

// apply takes over a change from the store.
func (d *Desk) apply(r Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq = max(d.seq, r.Seq)
	d.records[r.ID] = &r
	delete(d.todo, r.ID)
	if d.unremembered(r) {
		d.todo[r.ID] = time.Now()
	}
	d.show()
}

// show wakes all calls that wait for a change. mu is held.
func (d *Desk) show() {
	close(d.changed)
	d.changed = make(chan struct{})
	turn.Offer(d.stir, struct{}{})
}

// unremembered reports whether another gateway answered AllowAlways for a command of this
// machine, and the rules are not stored here yet.
func (d *Desk) unremembered(r Record) bool {
	return d.opts.Gateway != "" && d.opts.Remember != nil && d.Own(r) && r.Host != corral.HostNode && r.Verdict == AllowAlways && !r.Remembered
}

// tidy expires records whose time is over, even if that cannot be stored, and forgets old
// records. It returns the time at which the next record expires. mu is held.
func (d *Desk) tidy() (next time.Time) {
	if d.life.Err() != nil {
		return time.Time{}
	}
	now, some := time.Now(), false
	for id, r := range d.records {
		if r.State != Pending && r.State != Allowed || id == d.busy {
			continue
		}
		if r.ExpiresAt.After(now) {
			if next.IsZero() || r.ExpiresAt.Before(next) {
				next = r.ExpiresAt
			}
			continue
		}
		expired := *r
		expired.State = Expired
		d.records[id], d.expired[id], some = &expired, now, true
		if d.todo[id] = now; !d.Own(expired) {
			d.todo[id] = now.Add(anothersTurn)
		}
	}
	if some {
		d.show()
	}
	d.forget(now)
	return next
}

// forget drops settled records that are too old or too many.
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
			at = slices.MaxFunc([]time.Time{r.ExpiresAt, d.expired[r.ID]}, time.Time.Compare)
		}
		if kept > lingeringRecords || size > d.settledBytes || now.Sub(at) > lingering {
			delete(d.records, r.ID)
			delete(d.todo, r.ID)
			delete(d.expired, r.ID)
			d.forgotten = append(d.forgotten, *r)
		}
	}
}

// weight is about how many bytes a record has.
func (r *Record) weight() int64 {
	n := 1024 + len(r.Command) + len(r.Note)
	add := func(words []string) {
		for _, w := range words {
			n += len(w) + 16
		}
	}
	add(r.Args)
	add(r.Env)
	add(r.PathPrepend)
	for _, v := range r.Decision.Variables {
		n += 128 + len(v.Name) + len(v.Reason)
	}
	for _, s := range r.Decision.Segments {
		n += 512 + len(s.Text)
		add(s.Argv)
	}
	for _, p := range r.Previews {
		for _, e := range p.Entries {
			n += len(e.Command)
			add(e.Args)
			add(e.Env)
		}
	}
	return int64(n)
}

// byAge returns the records in the order of their last change.
func (d *Desk) byAge() []*Record {
	list := slices.Collect(maps.Values(d.records))
	slices.SortFunc(list, func(a, b *Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// used are the records that are not forgotten.
func (d *Desk) used() []Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []Record
	for _, r := range d.byAge() {
		list = append(list, *r)
	}
	return list
}

// tidyStore tells the store which records this desk has forgotten.
func (d *Desk) tidyStore() {
	d.mu.Lock()
	forgotten := d.forgotten
	d.forgotten = nil
	d.mu.Unlock()
	if err := d.store.Tidy(forgotten, d.used); err != nil && d.life.Err() == nil {
		d.opts.Log.Error("cannot write the approvals anew", "dir", d.opts.Dir, "error", err)
	}
}

// look runs the chores whenever they are due, until the desk is closed.
func (d *Desk) look() {
	for {
		next := d.chores()
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-d.life.Done():
			return
		case <-d.stir:
		case <-due:
		}
	}
}

// chores expires records and stores what is left in todo. It returns the time of the next
// chore.
func (d *Desk) chores() (next time.Time) {
	d.mu.Lock()
	d.tidy()
	var list []Record
	now := time.Now()
	for id, at := range d.todo {
		if r := d.records[id]; r != nil && id != d.busy && !at.After(now) {
			list = append(list, *r)
		}
	}
	d.mu.Unlock()
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range list {
		err := d.chore(r)
		if d.life.Err() != nil {
			return time.Time{}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrStale) {
			d.opts.Log.Error("cannot write what became of an approval; trying again", "approval", r.Slug, "state", r.State, "error", err)
		}
		d.mu.Lock()
		if at, still := d.todo[r.ID]; still && !at.After(now) {
			d.todo[r.ID] = time.Now().Add(retryAfter)
		}
		d.mu.Unlock()
	}
	d.tidyStore()
	d.mu.Lock()
	defer d.mu.Unlock()
	next = d.tidy()
	for id, at := range d.todo {
		if id != d.busy && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// chore stores the pending change of a record: rules to remember, or that it expired.
func (d *Desk) chore(r Record) error {
	if d.unremembered(r) {
		i := slices.IndexFunc(r.Previews, func(p Preview) bool { return p.Scope == r.Scope })
		if i < 0 || r.Previews[i].Unavailable != "" {
			d.opts.Log.Error("what was always allowed at another gateway cannot be remembered", "approval", r.Slug, "scope", r.Scope)
		} else if err := d.opts.Remember(d.life, r, r.Previews[i].Entries); err != nil {
			return err
		}
		r.Remembered = true
	}
	_, err := d.put(r)
	return err
}
