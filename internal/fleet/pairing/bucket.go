package pairing

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/natskv"
)

const (
	// BucketName is the name of the bucket at the message server.
	BucketName = "corral_nodes"

	headPrefix = "head." // and the number of the text
	allHeads   = headPrefix + "*"

	// keptHeads is the number of recent texts that stay, for readers. At least one has
	// to: it lets a gateway notice that it wrote under the number of a purged text.
	keptHeads = 16
	readTries = 5
)

// A Bucket keeps the registry of several gateways at their message server, in a
// key-value bucket of JetStream. See the package's doc.
type Bucket struct {
	kv   *natskv.Bucket
	most time.Duration // bounds every patience, for tests
	tell <-chan struct{}

	// The text that was read or written last; for one call at a time.
	number   uint64            // of the text; 0: there is none
	sum      [sha256.Size]byte // of the text
	revision uint64            // of its entry
	large    bool              // it is in parts
}

// OpenBucket opens the bucket, and creates it if needed. It sets what of the configuration
// is the same for every registry. The caller closes the connection, after the Registry.
func OpenBucket(ctx context.Context, cfg natskv.Config) (*Bucket, error) {
	cfg.Name, cfg.Holds, cfg.MaxText = BucketName, "the registry of nodes", maxFile
	kv, err := natskv.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Bucket{kv: kv, most: patient, tell: kv.News(allHeads)}, nil
}

func (b *Bucket) within(patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), min(patience, b.most))
}

// read implements storage.
func (b *Bucket) read(patience time.Duration) (*state, error) {
	ctx, cancel := b.within(patience)
	defer cancel()
	for n := 1; ; n++ {
		st, err := b.readOnce(ctx)
		// The parts of a text are purged when it is replaced.
		if !natskv.Replaced(err) || n >= readTries {
			return st, err
		}
	}
}

func (b *Bucket) readOnce(ctx context.Context) (*state, error) {
	e, err := b.kv.Last(ctx, allHeads)
	switch {
	case errors.Is(err, natskv.ErrNone) && b.number == 0:
		return newState(), nil
	case errors.Is(err, natskv.ErrNone):
		return nil, corral.Errorf(corral.ErrUnavailable, "restore the bucket "+BucketName+", or start the gateways anew and pair the nodes again",
			"the registry of nodes is gone from the message server")
	case err != nil:
		return nil, err
	case e.Err != nil:
		return nil, e.Err
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(e.Key, headPrefix), 10, 64)
	if err != nil || number == 0 {
		return nil, corral.Errorf(corral.ErrDenied, "see who else can write to the message server", "cannot trust the registry of nodes at the message server: its key is %s", quote(e.Key))
	}
	sum := sha256.Sum256(e.Text)
	if number == b.number && sum == b.sum {
		b.revision = e.Revision
		return nil, nil //nolint:nilnil // it says so
	}
	if number <= b.number {
		return nil, corral.Errorf(corral.ErrDenied, "see who else can write to the message server",
			"cannot trust the registry of nodes at the message server: it is older than what was there before: %d, after %d", number, b.number)
	}
	st, err := parse(e.Text)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "see whether the gateways have the same version", "cannot read the registry of nodes at the message server: line %w", err)
	}
	b.number, b.sum, b.revision, b.large = number, sum, e.Revision, natskv.Large(e.Text)
	return st, nil
}

// write implements storage.
func (b *Bucket) write(st *state, patience time.Duration) error {
	text, err := st.encode()
	if err != nil {
		return err
	}
	ctx, cancel := b.within(patience)
	defer cancel()
	key := headPrefix + strconv.FormatUint(b.number+1, 10)
	revision, err := b.kv.Create(ctx, key, text)
	if errors.Is(err, natskv.ErrExists) {
		return errStale
	}
	if err != nil {
		return err
	}
	// If other gateways have written so much meanwhile that a text with this number was
	// purged, this write could make it a second time. Then another text lies between it
	// and its predecessor. And the predecessor has to exist.
	is, err := b.follows(ctx, b.revision, revision)
	if err == nil && !is && b.moved(ctx) {
		is, err = b.follows(ctx, b.revision, revision)
	}
	if err != nil {
		return err
	}
	if !is {
		if err := b.kv.PurgeNow(ctx, key); err != nil {
			return err
		}
		return errStale
	}
	if b.large {
		b.kv.PurgeParts(headPrefix + strconv.FormatUint(b.number, 10))
	}
	b.kv.Purge(allHeads, keptHeads)
	b.number, b.sum, b.revision, b.large = b.number+1, sha256.Sum256(text), revision, natskv.Large(text)
	return nil
}

// moved reports whether the last text has another revision now, and stores that
// revision. When another server of a cluster becomes the leader, it may have counted
// differently; this was seen with NATS 2.9. So a revision alone identifies no text.
func (b *Bucket) moved(ctx context.Context) bool {
	if b.number == 0 {
		return false
	}
	e, err := b.kv.Last(ctx, headPrefix+strconv.FormatUint(b.number, 10))
	if err != nil || e.Err != nil || e.Revision == b.revision || sha256.Sum256(e.Text) != b.sum {
		return false // the next read reports the fault
	}
	b.revision = e.Revision
	return true
}

// follows reports whether the text at revision next directly follows the existing one
// at revision last; last 0: it follows none.
func (b *Bucket) follows(ctx context.Context, last, next uint64) (bool, error) {
	for _, want := range []struct{ after, revision uint64 }{{last - 1, last}, {last, next}} {
		if want.revision == 0 {
			continue
		}
		revision, err := b.kv.NextRevision(ctx, allHeads, want.after)
		if err != nil && !errors.Is(err, natskv.ErrNone) {
			return false, err
		}
		if err != nil || revision != want.revision {
			return false, nil
		}
	}
	return true, nil
}

// news implements storage.
func (b *Bucket) news() <-chan struct{} { return b.tell }

// close implements storage.
func (b *Bucket) close() error {
	b.kv.Close()
	return nil
}
