// Package approvals keeps the approvals of several gateways at their message server. A
// request from one gateway can be answered, and waited for, at all of them. It is an
// approval.Store, in a bucket of package natskv.
//
// Each change of a record is an entry of its own, under the key ID.VERSION: the record
// after the change, as JSON. A key has one entry. So only one of two answers counts,
// and a permission is used once, even if several gateways try at the same time. All
// gateways see the entries in the same order: the revision of an entry is the Seq of
// its record, so a client that follows the approvals at one gateway can go on at
// another.
//
// A gateway that is away loses nothing: its requests can be answered meanwhile, and it
// sees the answers when it is back. While the servers elect a leader a change waits, for
// up to 15 s. Other gateways see it within 5 s after that.
//
// A client that can write to the message server cannot forge a request or an answer,
// since entries are signed. It cannot make a gateway go back to an older state either: a
// change that is not newer is refused and logged. It can withhold changes. To a gateway
// that starts it may show a record in the state before it was used. The node still
// refuses the second use, since it remembers the first; on this machine the session with
// the same ID does.
//
// A record that every gateway would have forgotten is purged. The server itself forgets
// after [Age] what no gateway purged.
package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/policy/approval"
)

const (
	// BucketName is the name of the bucket at the message server.
	BucketName = "corral_approvals"
	// Age exceeds the useful life of any record: it can be answered for 30 days, then
	// used for 30 days, and then looked up.
	Age = 62 * 24 * time.Hour

	maxRecord = 4 << 20 // bytes
	all       = "*.*"
)

// A Store has the records of all gateways' Desks.
type Store struct {
	kv   *natskv.Bucket
	log  *slog.Logger
	news <-chan struct{}

	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu       sync.Mutex
	changed  func(approval.Record)
	seen     uint64           // entries up to this revision have been passed to changed
	versions map[string]int64 // of records, by ID
}

var _ approval.Store = (*Store)(nil)

// Open opens the bucket, and creates it if needed. It sets what of the configuration is the
// same for every Store. The caller closes the connection, after the Store.
func Open(ctx context.Context, cfg natskv.Config) (*Store, error) {
	cfg.Name, cfg.Holds, cfg.MaxText, cfg.Age = BucketName, "the approvals", maxRecord, Age
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	kv, err := natskv.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{kv: kv, log: cfg.Log, news: kv.News(all), versions: map[string]int64{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Follow implements approval.Store.
func (s *Store) Follow(changed func(approval.Record)) error {
	s.mu.Lock()
	s.changed = changed
	ctx, cancel := context.WithTimeout(s.ctx, natskv.Patience)
	defer cancel()
	err := s.kv.Each(ctx, all, func(e natskv.Entry) error {
		s.apply(e)
		return nil
	})
	s.mu.Unlock()
	if err == nil {
		err = s.catchUp(s.ctx, 0)
	}
	if err != nil {
		return err
	}
	s.owned.Go(s.follow)
	return nil
}

// follow passes on the changes of other gateways.
func (s *Store) follow() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.news:
		}
		if err := s.catchUp(s.ctx, 0); err != nil && s.ctx.Err() == nil {
			s.log.Error("cannot read the approvals of other gateways; trying again", "error", err)
		}
	}
}

// catchUp passes on the changes up to a revision; 0: all.
func (s *Store) catchUp(ctx context.Context, until uint64) error {
	ctx, cancel := context.WithTimeout(ctx, natskv.Patience)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for until == 0 || s.seen < until {
		e, err := s.kv.Next(ctx, all, s.seen)
		if errors.Is(err, natskv.ErrNone) {
			return nil
		}
		if natskv.Replaced(err) { // it was purged, and is not needed
			revision, nerr := s.kv.NextRevision(ctx, all, s.seen)
			switch {
			case errors.Is(nerr, natskv.ErrNone):
				return nil
			case nerr == nil:
				s.seen = revision
				continue
			}
			err = nerr
		}
		if err != nil {
			return err
		}
		s.apply(e)
	}
	return nil
}

// apply passes on an entry, if it can be trusted. mu is held.
func (s *Store) apply(e natskv.Entry) {
	if e.Revision <= s.seen {
		return
	}
	s.seen = e.Revision
	r, err := s.record(e)
	if err != nil {
		s.log.Warn("refused what is among the approvals at the message server", "key", e.Key, "revision", e.Revision, "error", err)
		return
	}
	s.versions[r.ID] = r.Version
	s.changed(r)
}

// record returns the record of an entry.
func (s *Store) record(e natskv.Entry) (approval.Record, error) {
	if e.Err != nil {
		return approval.Record{}, e.Err
	}
	id, number, _ := strings.Cut(e.Key, ".")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil || version < 1 || number != strconv.FormatInt(version, 10) {
		return approval.Record{}, fmt.Errorf("it has no number: %w", cmp.Or(err, strconv.ErrSyntax))
	}
	var r approval.Record
	if err := json.Unmarshal(e.Text, &r); err != nil {
		return approval.Record{}, err
	}
	switch known := s.versions[id]; {
	case r.ID != id || r.Version != version:
		return approval.Record{}, errors.New("it is the record of another one")
	case known > 0 && version <= known:
		return approval.Record{}, fmt.Errorf("it was replaced long ago: it is change %d, and %d was there", version, known)
	}
	r.Seq = int64(e.Revision) //nolint:gosec // a server counts for longer than there are servers
	return r, nil
}

// Put implements approval.Store.
func (s *Store) Put(ctx context.Context, r approval.Record) (approval.Record, error) {
	if strings.ContainsAny(r.ID, ".*> \t") || corral.ValidateID(r.ID) != nil {
		return approval.Record{}, corral.Errorf(corral.ErrInvalid, "", "%q cannot be the id of an approval", r.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, natskv.Patience)
	defer cancel()
	r.Seq = 0
	text, err := json.Marshal(r)
	if err != nil {
		return approval.Record{}, err
	}
	if len(text) > maxRecord {
		return approval.Record{}, corral.Errorf(corral.ErrInvalid, "put it into a script", "the command is too large to be approved: its record has %d bytes, of at most %d", len(text), maxRecord)
	}
	key := r.ID + "." + strconv.FormatInt(r.Version, 10)
	revision, err := s.kv.Create(ctx, key, text)
	if errors.Is(err, natskv.ErrExists) {
		return approval.Record{}, s.awaitWinner(ctx, key, r)
	}
	if err != nil {
		return approval.Record{}, err
	}
	r.Seq = int64(revision) //nolint:gosec // see above
	if err := s.catchUp(ctx, revision); err != nil {
		s.log.Warn("an approval is written, and cannot be read yet", "approval", r.Slug, "error", err)
	}
	return r, nil
}

// awaitWinner waits for the change that another gateway made first, passes it on, and
// returns ErrStale.
func (s *Store) awaitWinner(ctx context.Context, key string, r approval.Record) error {
	const pause = 10 * time.Millisecond
	for {
		if err := s.catchUp(ctx, 0); err != nil {
			return err
		}
		s.mu.Lock()
		known, seen := s.versions[r.ID], s.seen
		s.mu.Unlock()
		if known >= r.Version {
			return approval.ErrStale
		}
		e, err := s.kv.Last(ctx, key)
		switch {
		case err == nil && e.Err != nil:
			return e.Err
		case err == nil && e.Revision <= seen: // it was refused
			return corral.Errorf(corral.ErrDenied, "see whether the gateways have the same version, and who else can write to the message server",
				"cannot trust the approvals at the message server: there is another change %d of approval %s", r.Version, r.Slug)
		case err != nil && !errors.Is(err, natskv.ErrNone):
			return err
		}
		// It is under way, and its author does not know the outcome yet.
		select {
		case <-ctx.Done():
			return corral.Errorf(corral.ErrUnavailable, "try again", "cannot write the approvals at the message server: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
		if err != nil {
			return approval.ErrStale
		}
	}
}

// Tidy implements approval.Store: it purges the forgotten records.
func (s *Store) Tidy(forgotten []approval.Record, _ func() []approval.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range forgotten {
		delete(s.versions, r.ID)
		s.kv.Purge(r.ID+".*", 0)
		if large(r) {
			s.kv.PurgeParts(r.ID + ".*")
		}
	}
	return nil
}

// large reports whether a record may be stored in parts, given the size of its text.
func large(r approval.Record) bool {
	text, err := json.Marshal(r)
	return err != nil || natskv.Large(text)
}

// Close implements approval.Store.
func (s *Store) Close() error {
	s.cancel()
	s.kv.Close()
	s.owned.Wait()
	return nil
}
