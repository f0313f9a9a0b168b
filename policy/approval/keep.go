package approval

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/corral-exec/corral/internal/state/journal"
)

// A Store keeps the records of one Desk, or of those of several gateways. Every
// change of a record has a number ([Record.Version]), and a store takes each number
// once: so of all who want to change a record one does, and nothing is overwritten.
type Store interface {
	// Follow hands on each record there is, and from then on each change that any
	// program makes: once, one at a time, in the order of their numbers
	// ([Record.Seq]), which is the same at all desks. Follow is called once, before
	// anything else, and returns when all that there was is handed on; changed must
	// not call the store.
	Follow(changed func(Record)) error
	// Put keeps a change of a record, whose Version is one more than that of the
	// record that it changes; 1 is a new one. It returns it with its Seq, when it
	// was handed on and will not be lost. It is ErrStale if another desk was first, of
	// which the change was handed on by then. With any other error it may be kept
	// nevertheless, and is then handed on later.
	Put(ctx context.Context, r Record) (Record, error)
	// Tidy is told now and then that records are of no use any more, and that
	// used are all that are.
	Tidy(forgotten []Record, used func() []Record) error
	Close() error
}

// ErrStale is of a change of a record that was changed meanwhile.
var ErrStale = errors.New("the approval was changed meanwhile")

// files is the Store of one Desk alone: a journal in a directory.
type files struct {
	mu       sync.Mutex
	j        *journal.File
	seq      int64
	versions map[string]int64 // of records, by ID
	there    []Record         // as it was opened; until Follow
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

// add appends a line, which is on disk when it returns. With an error it is not.
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
