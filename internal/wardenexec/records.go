package wardenexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
)

// tag travels with a process and comes back on attach: what a later life of
// this program has to know.
type tag struct {
	Info   corral.Info     `json:"info"`
	Limit  corral.LogLimit `json:"limit"`
	Digest string          `json:"digest,omitempty"` // of the command, when its caller chose the ID
	Nonce  string          `json:"nonce"`            // of this start: tells ours from another's
}

// record is a process that ended.
type record struct {
	tag
	Exit corral.Exit `json:"exit"`
	Lost bool        `json:"lost,omitempty"` // and Exit says nothing
	How  string      `json:"how,omitempty"`  // the place where it was has ended, if that is known
	At   time.Time   `json:"at"`             // when this was recorded
}

// records is an executor's directory: logs, and a journal of what was started
// and how it ended. A line of the journal is a letter, an ID, and for an end
// the record; it is written at once, by whoever uses the directory, and counts
// from then on. Several programs may use one directory at the same time.
type records struct {
	root      *os.Root
	ephemeral bool

	mu      sync.Mutex
	journal *os.File
	read    int64 // bytes of the journal that are in the index
	index   map[string]entry
}

// entry is the last line about an ID. Ends are read again when they are needed.
type entry struct {
	kind   byte
	off    int64 // of the record
	size   int
	warden uint64 // that was about to start it; 0: not known
}

// JournalName is the name of the journal in a directory of records.
const JournalName = "journal"

const (
	journalName = JournalName

	wasStarted = 'S' // about to be started
	hasEnded   = 'E' // with a record
	isGone     = 'R' // removed, or not started after all

	// Retain is how long ended processes are kept that nobody removed.
	Retain = 7 * 24 * time.Hour
	// compactFrom is the size from which a journal is written anew at the
	// start, without what is gone.
	compactFrom = 256 << 10
)

func openRecords(dir string, ephemeral bool) (*records, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of logs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of logs: %w", err)
	}
	r := &records{root: root, ephemeral: ephemeral, index: map[string]entry{}}
	if ephemeral {
		return r, nil
	}
	if err := r.open(time.Now().Add(-Retain)); err != nil {
		r.close()
		return nil, fmt.Errorf("cannot open the records in %s: %w", dir, err)
	}
	return r, nil
}

func (r *records) open(before time.Time) error {
	alone, err := r.openJournal()
	if err != nil {
		return err
	}
	if err := r.update(); err != nil {
		return err
	}
	if !alone {
		return nil
	}
	if err := r.prune(before); err != nil {
		return err
	}
	if r.read > compactFrom {
		if err := r.compact(); err != nil {
			return err
		}
	}
	return shareJournal(r.journal)
}

// openJournal opens the journal and tells whether nobody else has it open.
func (r *records) openJournal() (alone bool, err error) {
	for {
		f, err := r.root.OpenFile(journalName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return false, err
		}
		r.journal = f
		if alone, err = lockJournal(f); err != nil {
			return false, err
		}
		// Somebody may have written it anew before we had the lock.
		ours, err := f.Stat()
		if err != nil {
			return false, err
		}
		if now, err := r.root.Stat(journalName); err == nil && os.SameFile(ours, now) {
			return alone, nil
		}
		f.Close()
	}
}

func (r *records) close() {
	if r.journal != nil {
		r.journal.Close()
	}
	r.root.Close()
}

// update reads what has been added to the journal. mu is held, or nobody else
// knows r.
func (r *records) update() error {
	info, err := r.journal.Stat()
	if err != nil {
		return err
	}
	if info.Size() <= r.read {
		return nil
	}
	b := make([]byte, info.Size()-r.read)
	if _, err := r.journal.ReadAt(b, r.read); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			return nil // being written, or cut short by a kill
		}
		r.line(line)
		r.read += int64(len(line)) + 1
		b = rest
	}
}

// line takes one line into the index. Anything that is none, such as one that a
// kill cut short, says nothing.
func (r *records) line(line []byte) {
	if len(line) < 3 || line[1] != ' ' {
		return
	}
	id, rec, _ := bytes.Cut(line[2:], []byte{' '})
	if corral.ValidateID(string(id)) != nil {
		return
	}
	switch line[0] {
	case wasStarted:
		warden, err := strconv.ParseUint(string(rec), 10, 64)
		if err != nil {
			warden = 0
		}
		r.index[string(id)] = entry{kind: wasStarted, warden: warden}
	case hasEnded:
		if !json.Valid(rec) { // cut short: the warden still has the end
			return
		}
		r.index[string(id)] = entry{kind: hasEnded, warden: r.index[string(id)].warden, off: r.read + int64(len(line)-len(rec)), size: len(rec)}
	case isGone:
		delete(r.index, string(id))
	}
}

// add appends a line. It begins with an end of line, in case another program
// was killed within one.
func (r *records) add(kind byte, id string, rec []byte) error {
	if r.ephemeral {
		return nil
	}
	b := make([]byte, 0, len(id)+len(rec)+5)
	b = append(b, '\n', kind, ' ')
	b = append(b, id...)
	if rec != nil {
		b = append(append(b, ' '), rec...)
	}
	if _, err := r.journal.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("cannot write the journal of processes: %w", err)
	}
	return nil
}

// start notes an ID before a warden is asked to start it.
func (r *records) start(id string, warden uint64) error {
	return r.add(wasStarted, id, strconv.AppendUint(nil, warden, 10))
}

// notStarted takes back start.
func (r *records) notStarted(id string) error { return r.add(isGone, id, nil) }

// end notes how a process ended.
func (r *records) end(id string, rec record) error {
	if r.ephemeral {
		return nil
	}
	rec.At = time.Now().UTC()
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return r.add(hasEnded, id, b)
}

// startedBy is the warden that was asked to start an ID of which the end is not
// known; 0 if that is not known either.
func (r *records) startedBy(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index[id].warden
}

// find tells what is known of an ID: whether it was started, and how it ended
// if it did.
func (r *records) find(id string) (started bool, rec *record, err error) {
	if r.ephemeral {
		return false, nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.update(); err != nil {
		return false, nil, fmt.Errorf("cannot read the journal of processes: %w", err)
	}
	e, ok := r.index[id]
	if !ok || e.kind == wasStarted {
		return ok, nil, nil
	}
	rec, err = r.record(id, e)
	return true, rec, err
}

func (r *records) record(id string, e entry) (*record, error) {
	b := make([]byte, e.size)
	if _, err := r.journal.ReadAt(b, e.off); err != nil {
		return nil, fmt.Errorf("cannot read the journal of processes: %w", err)
	}
	rec := new(record)
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("the record of %s is damaged: %w", id, err)
	}
	return rec, nil
}

// remove forgets an ended process, with its log.
func (r *records) remove(id string, removeLog func() error) error {
	if err := errors.Join(removeLog(), r.add(isGone, id, nil)); err != nil {
		return fmt.Errorf("cannot remove the records of %s: %w", id, err)
	}
	return nil
}

// prune removes processes that ended before a time and were never removed.
func (r *records) prune(before time.Time) error {
	for id, e := range r.index {
		if e.kind != hasEnded {
			continue
		}
		rec, err := r.record(id, e)
		if err != nil {
			return err
		}
		if rec.At.Before(before) {
			if err := r.remove(id, func() error { return outlog.Remove(r.root, id) }); err != nil {
				return err
			}
			delete(r.index, id)
		}
	}
	return nil
}

// compact writes the journal anew. Nobody else has it open.
func (r *records) compact() error {
	var b strings.Builder
	for id, e := range r.index {
		if e.kind == wasStarted {
			fmt.Fprintf(&b, "%c %s %d\n", wasStarted, id, e.warden)
			continue
		}
		rec := make([]byte, e.size)
		if _, err := r.journal.ReadAt(rec, e.off); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%c %s %s\n", hasEnded, id, rec)
	}
	const tmp = journalName + ".new"
	if err := r.root.WriteFile(tmp, []byte(b.String()), 0o600); err != nil {
		return err
	}
	f, err := r.root.OpenFile(tmp, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := lockJournal(f); err != nil {
		f.Close()
		return err
	}
	if err := r.root.Rename(tmp, journalName); err != nil {
		f.Close()
		return err
	}
	r.journal.Close()
	r.journal, r.read, r.index = f, 0, map[string]entry{}
	return r.update()
}
