package wardenexec

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/corral-exec/corral"
)

// Records are a directory of logs and records that several executors share, as
// Options.Records: those over the wardens that one place has had one after the
// other. A process that one of them has seen ending is known to all.
type Records struct{ rec *records }

// OpenRecords opens a directory, which is made if it does not exist. Records
// are closed after the last of their executors.
func OpenRecords(dir string, log *slog.Logger) (*Records, error) {
	rec, err := openRecords(dir, false, log)
	if err != nil {
		return nil, err
	}
	return &Records{rec}, nil
}

// Close closes the directory. Logs of processes cannot be read any more.
func (r *Records) Close() { r.rec.close() }

// Known tells what is known of an ID: whether a process was started under it,
// or was about to be, and whether it is recorded how that ended.
func (r *Records) Known(id string) (started, ended bool, err error) {
	if corral.ValidateID(id) != nil {
		return false, false, nil
	}
	started, rec, err := r.rec.find(id)
	return started, rec != nil, err
}

// Empty reports whether nothing is known of any process.
func (r *Records) Empty() (bool, error) {
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	err := r.rec.update()
	return err == nil && len(r.rec.index) == 0, err
}

// open opens the records of an executor; own tells whether it is to close them.
func (o *Options) open() (rec *records, own bool, err error) {
	if o.Records != nil {
		return o.Records.rec, false, nil
	}
	rec, err = openRecords(o.Dir, o.Ephemeral, o.Log)
	return rec, true, err
}

// Tracks reports whether this life has started, is starting or has found a process
// whose end is not recorded yet.
func (e *Executor) Tracks(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.procs[id] != nil
}

// Reach connects to the warden if there is no connection, and returns which one
// it is; see Options.EndedIdle. ErrGone: there is no warden.
func (e *Executor) Reach(ctx context.Context) (warden uint64, err error) {
	c, err := e.connection(ctx, false)
	if err != nil {
		return 0, err
	}
	return c.warden, nil
}

// Has reports whether the warden has a process, or is the one that was asked to
// start it. Without a warden it is false.
func (e *Executor) Has(ctx context.Context, id string) (bool, error) {
	c, err := e.connection(ctx, false)
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.items[id] != nil {
		return true, nil
	}
	warden := e.records.startedBy(id)
	return warden != 0 && warden == c.warden, nil
}

// Settle finds every process that the warden has, or was asked to start, and that has
// no recorded end, so that their ends will be recorded even if no caller asks. It
// returns how many processes run. No other call may have found them.
func (e *Executor) Settle(ctx context.Context) (running int, err error) {
	c, err := e.connection(ctx, false)
	if err != nil {
		return 0, err
	}
	for _, id := range e.unsettled(c) {
		if _, err := e.Attach(ctx, id); err != nil && !errors.Is(err, corral.ErrNotFound) {
			return 0, err
		}
	}
	return e.Running(), nil
}

// unsettled are the processes of a warden that were started and have no end.
func (e *Executor) unsettled(c *client) []string {
	var ids []string
	for id := range c.items {
		if corral.ValidateID(id) != nil {
			continue
		}
		if started, rec, err := e.records.find(id); err == nil && started && rec == nil {
			ids = append(ids, id)
		}
	}
	for _, id := range e.records.askedOf(c.warden) {
		if c.items[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// askedOf are the processes that a warden was asked to start and that have no
// end.
func (r *records) askedOf(warden uint64) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, e := range r.index {
		if e.kind == wasStarted && e.warden == warden && warden != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Unended is how many processes were started, by the records in a directory,
// whose end is not noted there. It does not disturb a program that has the directory
// open.
func Unended(dir string) (int, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r := &records{root: root, index: map[string]entry{}}
	defer r.close()
	if r.journal, err = root.Open(journalName); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	if err := r.update(); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range r.index {
		if e.kind == wasStarted {
			n++
		}
	}
	return n, nil
}

// Unused reports whether no program has a directory of records open, and no end is
// recorded there. If so it calls move, which has the directory be elsewhere, before
// anybody can open it. Its place has no warden any more: a start without an end is one
// that was lost, and that no program asked about.
func Unused(dir string, move func() error) (bool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	r := &records{root: root, index: map[string]entry{}, log: slog.New(slog.DiscardHandler)}
	defer r.close()
	alone, err := r.openJournal()
	if err != nil || !alone {
		return false, err
	}
	if err := r.update(); err != nil {
		return false, err
	}
	if err := r.prune(time.Now().Add(-Retain)); err != nil {
		return false, err
	}
	for _, e := range r.index {
		if e.kind == hasEnded {
			return false, nil
		}
	}
	err = move()
	return err == nil, err
}
