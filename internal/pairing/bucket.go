package pairing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
)

const (
	// BucketName is what the bucket is called at the message server.
	BucketName = "corral_nodes"

	headKey    = "nodes"
	partPrefix = "part."

	bucketVersion = 1
	partSize      = 32 << 10 // bytes; servers take messages of at least 64 KiB
	signatureSize = 64
	maxHead       = 1 << 10
	readTries     = 5

	clusterReplicas = 3 // any one of them may be away
)

// Times that a Bucket waits.
const (
	bucketStep = 3 * time.Second // for an answer
	bucketPoll = 5 * time.Second // between two looks, should nothing be heard

	// Servers of version 2.9 compare when a write is proposed to the others of a
	// cluster, and not when it is made: of two at the same time both are said to
	// be made, and the second counts. It is there this much later at most.
	settleTime = 200 * time.Millisecond
)

// BucketConfig is that of a Bucket. Conn and Key are required.
type BucketConfig struct {
	// Conn may use JetStream. The caller closes it, after the Registry.
	Conn *nats.Conn
	// Key signs what is kept: the gateways' key, the same for all of them.
	Key nkeys.KeyPair
	// Replicas is how many servers keep it, if the bucket has to be made. 0: three
	// of a cluster, or the one server there is.
	Replicas int
	Log      *slog.Logger

	wrap func(jetstream.KeyValue) jetstream.KeyValue // for tests; nil: as it is
}

// A Bucket keeps the registry of several gateways at their message server, in a
// key-value bucket of JetStream. See the package's doc.
type Bucket struct {
	conn   *nats.Conn
	kv     jetstream.KeyValue
	key    nkeys.KeyPair
	public string
	log    *slog.Logger
	most   time.Duration // bounds every patience, for tests

	replicated bool // several servers keep it

	ctx    context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup
	heard  chan struct{}

	// What was read or written last; for one call at a time.
	revision uint64 // of the head; 0: there is none
	head     head
	forked   uint64 // the number of a head that is beside another one
}

// head is what the key of the registry says. Its text follows it, if it fits.
type head struct {
	Version int    `json:"version"`
	Number  uint64 `json:"number"` // counts writes
	Size    int    `json:"size"`   // of the text, in bytes
	Sum     string `json:"sha256"`
	After   uint64 `json:"after,omitempty"` // the revision of the head that it replaces
	Parts   string `json:"parts,omitempty"` // the text is in part.PARTS.0, part.PARTS.1, ...; empty: here
}

// OpenBucket opens the bucket, or makes it if there is none.
func OpenBucket(ctx context.Context, cfg BucketConfig) (*Bucket, error) {
	public, err := cfg.Key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the gateway: %w", err)
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, fmt.Errorf("cannot use the message server: %w", err)
	}
	b := &Bucket{conn: cfg.Conn, key: cfg.Key, public: public, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), heard: make(chan struct{}, 1), most: patient}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, b.cancel)
	err = b.try(patient, func(ctx context.Context) (err error) {
		b.kv, err = b.openBucket(ctx, js, cfg.Replicas)
		return err
	})
	if !stop() || err != nil {
		b.cancel()
		return nil, bucketError(cmp.Or(err, ctx.Err()), "open")
	}
	if cfg.wrap != nil {
		b.kv = cfg.wrap(b.kv)
	}
	b.owned.Go(b.follow)
	return b, nil
}

// What the message server says of replicas.
const (
	notClustered  jetstream.ErrorCode = 10074
	tooFewServers jetstream.ErrorCode = 10005
)

func (b *Bucket) openBucket(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, BucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		cfg := jetstream.KeyValueConfig{
			Bucket: BucketName, Description: "the nodes of Corral's gateways", Storage: jetstream.FileStorage, Replicas: cmp.Or(replicas, clusterReplicas),
		}
		kv, err = js.CreateKeyValue(ctx, cfg)
		if replicas == 0 && says(err, notClustered) {
			cfg.Replicas = 1
			kv, err = js.CreateKeyValue(ctx, cfg)
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another gateway was first, and wants it otherwise
			kv, err = js.KeyValue(ctx, BucketName)
		}
	}
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return kv, nil
	}
	info := s.StreamInfo()
	b.replicated = info.Config.Replicas > 1
	if info.Config.Storage != jetstream.FileStorage {
		return nil, corral.Errorf(corral.ErrInvalid, "delete the bucket, and let a gateway make it", "the bucket %s of the message server is in memory alone", BucketName)
	}
	if info.Cluster != nil && info.Cluster.Name != "" && info.Config.Replicas < clusterReplicas {
		b.log.Warn("the registry of nodes is on too few servers of the cluster to be there when one is not", "replicas", info.Config.Replicas,
			"hint", fmt.Sprintf("nats stream edit KV_%s --replicas %d", BucketName, clusterReplicas))
	}
	return kv, nil
}

// says reports whether an error is the message server's with that code.
func says(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// bucketError is what an error of the message server means.
func bucketError(err error, what string) error {
	hint := "look at the message server: its JetStream has to be reachable, and the gateway's user allowed to use it"
	switch known := (*corral.Error)(nil); {
	case err == nil, errors.As(err, &known):
		return err
	case says(err, tooFewServers):
		hint = fmt.Sprintf("have at least %d servers of the cluster run with JetStream, or make the bucket %s with fewer replicas", clusterReplicas, BucketName)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		hint = "turn JetStream on at the message server, with sync_interval: always"
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "cannot %s the registry of nodes at the message server: %w", what, err)
}

// try does something until the server says how it went.
func (b *Bucket) try(patience time.Duration, do func(context.Context) error) error {
	all, cancel := context.WithTimeout(b.ctx, min(patience, b.most))
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(all, bucketStep)
		err := do(ctx)
		cancel()
		if err == nil || settled(err) {
			return err
		}
		select {
		case <-all.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// settled reports whether the same question would get the same answer.
func settled(err error) bool {
	api, own := (*jetstream.APIError)(nil), (*corral.Error)(nil)
	return errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) ||
		errors.As(err, &own) || errors.As(err, &api) && api.Code >= 400 && api.Code < 500 ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) ||
		errors.Is(err, nats.ErrConnectionClosed)
}

const bucketDomain = "corral registry of nodes\n"

// seal is a value of the head.
func (b *Bucket) seal(h head, text []byte) ([]byte, error) {
	value, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	value = append(value, '\n')
	if h.Parts == "" {
		value = append(value, text...)
	}
	sig, err := b.key.Sign(append([]byte(bucketDomain), value...))
	if err != nil {
		return nil, fmt.Errorf("cannot sign the registry of nodes: %w", err)
	}
	return append(sig, value...), nil
}

// unseal reads a value of the head. The text is nil if it is in parts.
func (b *Bucket) unseal(value []byte) (h head, text []byte, err error) {
	refuse := func(why string) (head, []byte, error) {
		return head{}, nil, corral.Errorf(corral.ErrDenied, "give all gateways the same gateway.seed; if they have it, see who else can write to the message server",
			"cannot trust the registry of nodes at the message server: %s", why)
	}
	if len(value) < signatureSize {
		return refuse("it is cut short")
	}
	key, err := nkeys.FromPublicKey(b.public)
	if err != nil {
		return head{}, nil, err
	}
	if key.Verify(append([]byte(bucketDomain), value[signatureSize:]...), value[:signatureSize]) != nil {
		return refuse("it is not signed with the key of this gateway")
	}
	line, text, found := bytes.Cut(value[signatureSize:], []byte{'\n'})
	if !found || len(line) > maxHead || json.Unmarshal(line, &h) != nil || h.Size < 0 || h.Size > maxFile {
		return refuse("its head cannot be read")
	}
	if h.Version != bucketVersion {
		return refuse(fmt.Sprintf("it has version %d, and this program knows %d", h.Version, bucketVersion))
	}
	if b.revision > 0 && h.Number <= b.head.Number && !b.beside(h) {
		return refuse(fmt.Sprintf("it is older than what was there before: %d, after %d", h.Number, b.head.Number))
	}
	if h.Parts != "" {
		text = nil
	}
	return h, text, nil
}

// beside reports whether a head is that of a write at the same time as the last one
// here, see settleTime. Of one there is no second one: each could undo the other.
func (b *Bucket) beside(h head) bool {
	return h.Number == b.head.Number && h.After == b.head.After && h.Sum != b.head.Sum && h.Number != b.forked
}

// read implements storage.
func (b *Bucket) read(patience time.Duration) (*state, error) {
	var st *state
	for n := 1; ; n++ {
		err := b.try(patience, func(ctx context.Context) (err error) {
			st, err = b.readOnce(ctx)
			return err
		})
		// The parts of a head go when it is replaced.
		if !errors.Is(err, errReplaced) || n >= readTries {
			return st, bucketError(err, "read")
		}
	}
}

var errReplaced = corral.Errorf(corral.ErrUnavailable, "try again", "the registry of nodes was replaced while it was read")

func (b *Bucket) readOnce(ctx context.Context) (*state, error) {
	entry, err := b.kv.Get(ctx, headKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound) && b.revision == 0:
		return newState(), nil
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, corral.Errorf(corral.ErrUnavailable, "restore the bucket "+BucketName+", or start the gateways anew and pair the nodes again",
			"the registry of nodes is gone from the message server")
	case err != nil:
		return nil, err
	case entry.Revision() == b.revision:
		return nil, nil //nolint:nilnil // it says so
	}
	h, text, err := b.unseal(entry.Value())
	if err != nil {
		return nil, err
	}
	if h.Parts != "" {
		if text, err = b.readParts(ctx, h); err != nil {
			return nil, err
		}
	}
	if sum := sha256.Sum256(text); len(text) != h.Size || hex.EncodeToString(sum[:]) != h.Sum {
		return nil, corral.Errorf(corral.ErrDenied, "see who else can write to the message server", "cannot trust the registry of nodes at the message server: its text is another one than was signed")
	}
	st, err := parse(text)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "see whether the gateways have the same version", "cannot read the registry of nodes at the message server: line %w", err)
	}
	if b.revision > 0 && h.Number == b.head.Number {
		b.forked = h.Number
		b.log.Warn("the last change of the nodes was made at the same time as one of another gateway, and may not have stayed")
	}
	b.revision, b.head = entry.Revision(), h
	return st, nil
}

func (b *Bucket) readParts(ctx context.Context, h head) ([]byte, error) {
	text := make([]byte, 0, h.Size)
	for i := 0; len(text) < h.Size; i++ {
		part, err := b.kv.Get(ctx, partKey(h.Parts, i))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, errReplaced
		}
		if err != nil {
			return nil, err
		}
		if len(part.Value()) == 0 {
			break // it is not what was signed
		}
		text = append(text, part.Value()...)
	}
	return text, nil
}

func partKey(parts string, i int) string { return partPrefix + parts + "." + strconv.Itoa(i) }

// write implements storage.
func (b *Bucket) write(st *state, patience time.Duration) error {
	text, err := st.encode()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	h := head{Version: bucketVersion, Number: b.head.Number + 1, Size: len(text), Sum: hex.EncodeToString(sum[:]), After: b.revision}
	if len(text) > partSize {
		h.Parts = corral.NewID()
		for i := 0; i*partSize < len(text); i++ {
			if err := b.try(patience, func(ctx context.Context) error {
				_, err := b.kv.Put(ctx, partKey(h.Parts, i), text[i*partSize:min((i+1)*partSize, len(text))])
				return err
			}); err != nil {
				b.dropParts(h)
				return bucketError(err, "write")
			}
		}
	}
	value, err := b.seal(h, text)
	if err != nil {
		return err
	}
	revision, err := b.replace(value, patience)
	if err == nil && b.replicated {
		err = b.confirm(revision, patience)
	}
	if errors.Is(err, errStale) { // with any other error the head may be there
		b.dropParts(h)
	}
	if err != nil {
		return err
	}
	old := b.head
	b.revision, b.head = revision, h
	b.dropParts(old)
	return nil
}

// replace writes the head if nobody else did since it was read.
func (b *Bucket) replace(value []byte, patience time.Duration) (revision uint64, err error) {
	tries := 0
	err = b.try(patience, func(ctx context.Context) (err error) {
		tries++
		if b.revision == 0 {
			revision, err = b.kv.Create(ctx, headKey, value)
		} else {
			revision, err = b.kv.Update(ctx, headKey, value, b.revision)
		}
		return err
	})
	if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) && !errors.Is(err, jetstream.ErrKeyExists) {
		return revision, bucketError(err, "write")
	}
	if tries > 1 { // one that was not answered may have done it
		var now jetstream.KeyValueEntry
		err := b.try(patience, func(ctx context.Context) (err error) {
			now, err = b.kv.Get(ctx, headKey)
			return err
		})
		if err != nil {
			return 0, bucketError(err, "read")
		}
		if bytes.Equal(now.Value(), value) {
			return now.Revision(), nil
		}
	}
	return 0, errStale
}

// confirm is errStale if the head with that revision was replaced by one that was
// made without it.
func (b *Bucket) confirm(revision uint64, patience time.Duration) error {
	select {
	case <-b.ctx.Done():
	case <-time.After(settleTime):
	}
	var now jetstream.KeyValueEntry
	err := b.try(patience, func(ctx context.Context) (err error) {
		now, err = b.kv.Get(ctx, headKey)
		if err == nil && now.Revision() < revision {
			err = fmt.Errorf("revision %d is not at the server that was asked", revision)
		}
		return err
	})
	if err != nil {
		return bucketError(err, "read")
	}
	if now.Revision() == revision {
		return nil
	}
	if h, _, err := b.unseal(now.Value()); err != nil || h.After != revision {
		return errStale // what cannot be read is for who reads next
	}
	return nil
}

// dropParts deletes parts that no head speaks of any more. What cannot be deleted
// now costs its space.
func (b *Bucket) dropParts(h head) {
	for i := 0; h.Parts != "" && i*partSize < h.Size; i++ {
		ctx, cancel := context.WithTimeout(b.ctx, bucketStep)
		err := b.kv.Purge(ctx, partKey(h.Parts, i))
		cancel()
		if err != nil {
			b.log.Warn("a part of the registry of nodes that is not used stays at the message server", "part", partKey(h.Parts, i), "error", err)
			return
		}
	}
}

// news implements storage.
func (b *Bucket) news() <-chan struct{} { return b.heard }

func (b *Bucket) tell() {
	select {
	case b.heard <- struct{}{}:
	default:
	}
}

// follow hears what is written, until the bucket is closed. It looks when the
// connection is made again, and now and then in any case: a revocation has to
// arrive.
func (b *Bucket) follow() {
	connected := b.conn.StatusChanged(nats.CONNECTED)
	defer b.conn.RemoveStatusListener(connected)
	tick := time.NewTicker(bucketPoll)
	defer tick.Stop()
	for b.ctx.Err() == nil {
		var updates <-chan jetstream.KeyValueEntry // nil: nothing can be heard
		w, err := b.kv.Watch(b.ctx, headKey, jetstream.MetaOnly())
		if err == nil {
			updates = w.Updates()
		} else if b.ctx.Err() == nil {
			b.log.Warn("cannot follow the registry of nodes; trying again", "error", err)
		}
		for again := false; !again; b.tell() {
			select {
			case <-b.ctx.Done():
				again = true
			case _, ok := <-updates:
				again = !ok
			case <-connected:
				again = true
			case <-tick.C:
				again = updates == nil
			}
		}
		if err == nil {
			_ = w.Stop() // it may have ended with its connection
		}
	}
}

// close implements storage.
func (b *Bucket) close() error {
	b.cancel()
	b.owned.Wait()
	return nil
}
