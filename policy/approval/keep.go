package approval

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/corral-exec/corral/internal/state/journal"
)

// A Store keeps the records of one Desk, or of the desks of several gateways. Every
// change of a record has a number ([Record.Version]), and a store accepts each number
// once. So of several desks that change a record at the same time one succeeds, and no
// change is overwritten.
type Store interface {
	// Follow passes each existing record to changed, and from then on each change by
	// any program: once, one at a time, in the order of their numbers ([Record.Seq]).
	// The order is the same at all desks. Follow is called once, before anything else,
	// and returns when changed has got all existing records; changed must not call the
	// store.
	Follow(changed func(Record)) error
	// Put stores a change of a record. Its Version is one more than that of the record
	// before; a new record has 1. Put returns the record with its Seq, after the record
	// was stored for good and passed to changed. It returns ErrStale if another desk was
	// first; changed then already has that desk's change. After any other error the
	// change may have been stored all the same, and is passed to changed later.
	Put(ctx context.Context, r Record) (Record, error)
	// Tidy is called from time to time. The store may remove the forgotten records;
	// used returns all others.
	Tidy(forgotten []Record, used func() []Record) error
	Close() error
}

// ErrStale: the record was changed meanwhile.
var ErrStale = errors.New("the approval was changed meanwhile")

// files is the Store of one Desk alone: a journal in a directory.
type files struct {
	mu       sync.Mutex
	j        *journal.File
	seq      int64
	versions map[string]int64 // of records, by ID
	there    []Record         // the records in the journal when it was opened; until Follow
	changed  func(Record)
}

func openFiles(dir string, log *slog.Logger) (*files, error) {
	s := &files{versions: map[string]int64{}}
	j, err := openJournal(dir, func(l line) error {
		s.seq = max(s.seq, l.Seq)
		if r := l.Record; r != nil {
			s.seq = max(s.seq, r.Seq)
			s.versions[r.ID] = r.Version
			s.there = append(s.there, *r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if j.Cut > 0 {
		log.Warn("the last line of the approvals was cut short and is dropped; nobody was told what it was to say", "dir", dir, "bytes", j.Cut)
	}
	s.j = j
	if j.Size() == 0 {
		if err := s.add(line{Version: journalVersion, Seq: s.seq}); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return s, nil
}

// add appends a line. It is on disk when add returns, unless there is an error.
func (s *files) add(l line) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	return s.j.Append(b)
}

// Follow implements Store.
func (s *files) Follow(changed func(Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.there {
		changed(r)
	}
	s.there, s.changed = nil, changed
	return nil
}

// Put implements Store.
func (s *files) Put(_ context.Context, r Record) (Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Version != s.versions[r.ID]+1 {
		return Record{}, ErrStale
	}
	r.Seq = s.seq + 1
	if err := s.add(line{Record: &r}); err != nil {
		return Record{}, err
	}
	s.seq, s.versions[r.ID] = r.Seq, r.Version
	s.changed(r)
	return r, nil
}

// Tidy implements Store: it writes the journal anew if it has grown.
func (s *files) Tidy(forgotten []Record, used func() []Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range forgotten {
		delete(s.versions, r.ID)
	}
	if !s.j.Grown() {
		return nil
	}
	return s.j.Compact(func() ([]byte, error) {
		b, err := line{Version: journalVersion, Seq: s.seq}.encode()
		for _, r := range used() {
			text, lerr := line{Record: &r}.encode()
			b, err = append(b, text...), errors.Join(err, lerr)
		}
		return b, err
	})
}

// Close implements Store.
func (s *files) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.j.Close()
}
