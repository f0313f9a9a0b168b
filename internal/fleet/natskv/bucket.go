package natskv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/turn"
)

// Patience bounds a change while a caller waits: servers take seconds to elect a
// leader.
const Patience = 15 * time.Second

const (
	step = 3 * time.Second // for an answer
	poll = 5 * time.Second // between two checks, even without news

	clusterReplicas = 3 // any one of the servers may be away
)

// ErrExists: the entry exists already. ErrNone: there is no such entry.
var (
	ErrExists = errors.New("there is an entry under that key")
	ErrNone   = errors.New("there is no such entry")
)

// Config of a Bucket. Conn, Name, Holds and Key are required.
type Config struct {
	// Conn may use JetStream. The caller closes it, after the Bucket.
	Conn *fabric.Link
	// Name is the bucket's name at the message server. Holds describes its content for
	// people: "the registry of nodes".
	Name, Holds string
	// Key signs entries: the gateways' key, the same for all of them.
	Key nkeys.KeyPair
	// MaxText bounds an entry, in bytes. 0: 1 MiB.
	MaxText int
	// Age is the time after which the server forgets an entry, if the bucket has to be
	// created. 0: never.
	Age time.Duration
	// Replicas is the number of servers that keep it, if the bucket has to be created.
	// 0: three in a cluster, else one.
	Replicas int
	Log      *slog.Logger
}

// A Bucket is a bucket of this package. Its methods may be called at any time.
type Bucket struct {
	cfg     Config
	public  string
	pattern string // of the subjects of keys

	ctx    context.Context //nolint:containedctx // ends with Close
	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu      sync.Mutex
	useless map[string]uint64 // patterns to purge, and how many entries of each stay
	work    chan struct{}     // signals that useless has entries

	publish func(context.Context, *nats.Msg) (*jetstream.PubAck, error) // to an empty subject; replaced by tests
}

// Open opens the bucket, and creates it if needed.
func Open(ctx context.Context, cfg Config) (*Bucket, error) {
	public, err := cfg.Key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the gateway: %w", err)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.MaxText = cmp.Or(cfg.MaxText, 1<<20)
	b := &Bucket{cfg: cfg, public: public, pattern: "$KV." + cfg.Name + ".", useless: map[string]uint64{}, work: make(chan struct{}, 1)}
	b.publish = func(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
		js, err := b.jetStream()
		if err != nil {
			return nil, err
		}
		return js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	patient, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := b.try(patient, b.open); err != nil {
		b.cancel()
		return nil, b.explain(err, "open")
	}
	b.owned.Go(b.tidy)
	return b, nil
}

// Close ends all waiting calls. The bucket stays as it is.
func (b *Bucket) Close() {
	b.cancel()
	b.owned.Wait()
}

// Public returns the public half of the signing key.
func (b *Bucket) Public() string { return b.public }

// Error codes of the message server.
const (
	notClustered     jetstream.ErrorCode = 10074
	tooFewServers    jetstream.ErrorCode = 10005
	messageNotFound  jetstream.ErrorCode = 10037
	wrongLast        jetstream.ErrorCode = 10071
	wrongLastInSight jetstream.ErrorCode = 10164 // a write to it is under way, which may be an unanswered one of this gateway
)

// jetStream returns JetStream on the connection that there is now.
func (b *Bucket) jetStream() (jetstream.JetStream, error) { return jetstream.New(b.cfg.Conn.Conn()) }

func (b *Bucket) keyValue(ctx context.Context) (jetstream.KeyValue, error) {
	js, err := b.jetStream()
	if err != nil {
		return nil, err
	}
	return js.KeyValue(ctx, b.cfg.Name)
}

func (b *Bucket) watch(ctx context.Context, pattern string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	kv, err := b.keyValue(ctx)
	if err != nil {
		return nil, err
	}
	return kv.Watch(ctx, pattern, opts...)
}

// open checks the bucket, and creates it if needed.
func (b *Bucket) open(ctx context.Context) error {
	js, err := b.jetStream()
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, b.cfg.Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		cfg := jetstream.KeyValueConfig{
			Bucket: b.cfg.Name, Description: b.cfg.Holds + " of Corral's gateways", Storage: jetstream.FileStorage,
			TTL: b.cfg.Age, Replicas: cmp.Or(b.cfg.Replicas, clusterReplicas),
		}
		kv, err = js.CreateKeyValue(ctx, cfg)
		if b.cfg.Replicas == 0 && says(err, notClustered) {
			cfg.Replicas = 1
			kv, err = js.CreateKeyValue(ctx, cfg)
		}
		if errors.Is(err, jetstream.ErrBucketExists) { // another gateway created it first, with other settings
			kv, err = js.KeyValue(ctx, b.cfg.Name)
		}
	}
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	s, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return nil
	}
	info := s.StreamInfo()
	if info.Config.Storage != jetstream.FileStorage {
		return corral.Errorf(corral.ErrInvalid, "delete the bucket, and let a gateway make it", "the bucket %s of the message server is in memory alone", b.cfg.Name)
	}
	if info.Cluster != nil && info.Cluster.Name != "" && info.Config.Replicas < clusterReplicas {
		b.cfg.Log.Warn(b.cfg.Holds+" is on too few servers of the cluster to be there when one is not", "replicas", info.Config.Replicas,
			"hint", fmt.Sprintf("nats stream edit KV_%s --replicas %d", b.cfg.Name, clusterReplicas))
	}
	return nil
}

// says reports whether err comes from the message server with one of these codes.
func says(err error, codes ...jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(codes, api.ErrorCode)
}

// explain translates an error of the message server.
func (b *Bucket) explain(err error, what string) error {
	hint := "look at the message server: its JetStream has to be reachable, and to allow the gateway's user what corral nodes server-config prints"
	switch known := (*corral.Error)(nil); {
	case err == nil, errors.As(err, &known), errors.Is(err, ErrExists), errors.Is(err, ErrNone):
		return err
	case says(err, tooFewServers):
		hint = fmt.Sprintf("have at least %d servers of the cluster run with JetStream, or make the bucket %s with fewer replicas", clusterReplicas, b.cfg.Name)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		hint = "turn JetStream on at the message server, with sync_interval: always"
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "cannot %s %s at the message server: %w", what, b.cfg.Holds, err)
}

// try repeats do until the server gives a final answer, or ctx ends.
func (b *Bucket) try(ctx context.Context, do func(context.Context) error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		one, cancel := context.WithTimeout(ctx, step)
		unhook := context.AfterFunc(b.ctx, cancel)
		err := do(one)
		unhook()
		cancel()
		if err == nil || final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-b.ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// final reports whether a retry would get the same answer.
func final(err error) bool {
	if says(err, tooFewServers, wrongLastInSight) {
		return false // the servers of a cluster do not start at the same time; a write under way may fail
	}
	api, own := (*jetstream.APIError)(nil), (*corral.Error)(nil)
	return errors.Is(err, ErrExists) || errors.Is(err, ErrNone) ||
		errors.As(err, &own) || errors.As(err, &api) && api.Code >= 400 && api.Code < 500 ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// Create makes an entry, unless the key has one: then the error is ErrExists. It
// returns the entry's revision; revisions of a bucket grow. After any other error the
// entry may exist nevertheless.
func (b *Bucket) Create(ctx context.Context, key string, text []byte) (revision uint64, err error) {
	if len(text) > b.cfg.MaxText {
		return 0, corral.Errorf(corral.ErrInvalid, "", "%s cannot have an entry of %d bytes, of at most %d", b.cfg.Holds, len(text), b.cfg.MaxText)
	}
	h := newHead(text)
	if Large(text) {
		if err := b.putParts(ctx, key, &h, text); err != nil {
			return 0, b.explain(err, "write")
		}
	}
	value, err := b.seal(key, h, text)
	if err != nil {
		return 0, err
	}
	tries := 0
	err = b.try(ctx, func(ctx context.Context) error {
		tries++
		ack, err := b.publish(ctx, &nats.Msg{Subject: b.pattern + key, Data: value})
		if says(err, wrongLast) {
			err = ErrExists
		}
		if err == nil {
			revision = ack.Sequence
		}
		return err
	})
	if errors.Is(err, ErrExists) && tries > 1 { // an unanswered attempt may have made it
		there, readErr := b.get(ctx, request{Last: b.pattern + key})
		switch {
		case readErr == nil && bytes.Equal(there.Data, value):
			return there.Sequence, nil
		case readErr != nil && !errors.Is(readErr, ErrNone):
			return 0, b.explain(readErr, "read")
		}
	}
	if errors.Is(err, ErrExists) && h.Parts != "" { // after any other error the entry may exist
		b.Purge(partPrefix+key+"."+h.Parts+".>", 0)
	}
	return revision, b.explain(err, "write")
}

// An Entry is the value of a key.
type Entry struct {
	Key      string
	Revision uint64
	Text     []byte
	// Err says why it cannot be trusted; it is an ErrDenied. Then Text is empty.
	Err error
}

// Last returns the last entry whose key matches a pattern. '*' stands for any text
// between two dots. ErrNone: there is none.
func (b *Bucket) Last(ctx context.Context, pattern string) (Entry, error) {
	return b.entry(ctx, request{Last: b.pattern + pattern})
}

// Next returns the first entry after a revision whose key matches a pattern. ErrNone:
// there is none.
func (b *Bucket) Next(ctx context.Context, pattern string, after uint64) (Entry, error) {
	return b.entry(ctx, request{Next: b.pattern + pattern, Seq: after + 1})
}

// NextRevision returns the revision of the entry that Next would return, without
// reading it.
func (b *Bucket) NextRevision(ctx context.Context, pattern string, after uint64) (uint64, error) {
	m, err := b.get(ctx, request{Next: b.pattern + pattern, Seq: after + 1})
	if err != nil {
		return 0, b.explain(err, "read")
	}
	return m.Sequence, nil
}

func (b *Bucket) entry(ctx context.Context, req request) (Entry, error) {
	m, err := b.get(ctx, req)
	if err != nil {
		return Entry{}, b.explain(err, "read")
	}
	e, err := b.unsealed(ctx, strings.TrimPrefix(m.Subject, b.pattern), m.Sequence, m.Data)
	return e, b.explain(err, "read")
}

// request asks for a message. Its fields are those of JetStream's API.
type request struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// message is a stored message.
type message struct {
	Subject  string `json:"subject"`
	Sequence uint64 `json:"seq"`
	Data     []byte `json:"data"`
}

// get asks the leading server. The library would ask any server.
func (b *Bucket) get(ctx context.Context, req request) (*message, error) {
	data, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *message            `json:"message"`
	}
	err = b.try(ctx, func(ctx context.Context) error {
		m, err := b.cfg.Conn.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.KV_"+b.cfg.Name, data)
		if err != nil {
			return err
		}
		answer.Error, answer.Message = nil, nil
		switch err := json.Unmarshal(m.Data, &answer); {
		case err != nil:
			return fmt.Errorf("the message server answers with something else: %w", err)
		case answer.Error != nil && answer.Error.ErrorCode == messageNotFound:
			return ErrNone
		case answer.Error != nil:
			return answer.Error
		case answer.Message == nil || !strings.HasPrefix(answer.Message.Subject, b.pattern):
			return errors.New("the message server answers with no message")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer.Message, nil
}

// Each calls each for the entries that match a pattern, in the order of their
// revisions. Recent entries may be missing. It stops at an error of each.
func (b *Bucket) Each(ctx context.Context, pattern string, each func(Entry) error) error {
	w, err := b.watch(ctx, pattern)
	if err != nil {
		return b.explain(err, "read")
	}
	defer func() { _ = w.Stop() }() // it may have ended with its connection
	quiet := time.NewTimer(Patience)
	defer quiet.Stop()
	for {
		select {
		case u, ok := <-w.Updates():
			if !ok {
				return b.explain(errors.New("the connection was lost"), "read")
			}
			if u == nil { // end of the entries
				return nil
			}
			e, err := b.unsealed(ctx, u.Key(), u.Revision(), u.Value())
			if err == nil {
				err = each(e)
			}
			if err != nil {
				return b.explain(err, "read")
			}
			quiet.Reset(Patience)
		case <-quiet.C:
			return b.explain(errors.New("the message server does not go on"), "read")
		case <-ctx.Done():
			return b.explain(context.Cause(ctx), "read")
		case <-b.ctx.Done():
			return b.explain(b.ctx.Err(), "read")
		}
	}
}

// Purge soon removes the entries and parts that match a pattern, except the last keep
// ones. If that fails, it is logged, and the entries keep using space.
func (b *Bucket) Purge(pattern string, keep uint64) {
	const most = 10_000
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.useless) >= most {
		return
	}
	b.useless[pattern] = keep
	turn.Offer(b.work, struct{}{})
}

// PurgeParts soon removes the parts of entries that match a pattern.
func (b *Bucket) PurgeParts(pattern string) { b.Purge(partPrefix+pattern+".>", 0) }

// PurgeNow removes the entries that match a pattern before it returns.
func (b *Bucket) PurgeNow(ctx context.Context, pattern string) error {
	return b.explain(b.try(ctx, func(ctx context.Context) error { return b.purge(ctx, pattern, 0) }), "write")
}

// tidy purges until the bucket is closed.
func (b *Bucket) tidy() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.work:
		}
		b.mu.Lock()
		list := b.useless
		b.useless = map[string]uint64{}
		b.mu.Unlock()
		for pattern, keep := range list {
			ctx, cancel := context.WithTimeout(b.ctx, Patience)
			err := b.try(ctx, func(ctx context.Context) error { return b.purge(ctx, pattern, keep) })
			cancel()
			if b.ctx.Err() != nil {
				return
			}
			if err != nil {
				b.cfg.Log.Warn("what is of no use any more stays at the message server", "bucket", b.cfg.Name, "keys", pattern, "error", err)
			}
		}
	}
}

func (b *Bucket) purge(ctx context.Context, pattern string, keep uint64) error {
	req, err := json.Marshal(jetstream.StreamPurgeRequest{Subject: b.pattern + pattern, Keep: keep})
	if err != nil {
		return err
	}
	m, err := b.cfg.Conn.Conn().RequestWithContext(ctx, "$JS.API.STREAM.PURGE.KV_"+b.cfg.Name, req)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// News signals when there may be new entries that match a pattern, until the bucket is
// closed: after a notification, after a reconnect, and now and then in any case.
func (b *Bucket) News(pattern string) <-chan struct{} {
	news := make(chan struct{}, 1)
	b.owned.Go(func() { b.follow(pattern, news) })
	return news
}

func (b *Bucket) follow(pattern string, news chan<- struct{}) {
	tell := func() {
		turn.Offer(news, struct{}{})
	}
	connected, unwatch := b.cfg.Conn.Connected()
	defer unwatch()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for b.ctx.Err() == nil {
		var updates <-chan jetstream.KeyValueEntry // nil: no notifications
		w, err := b.watch(b.ctx, pattern, jetstream.MetaOnly(), jetstream.UpdatesOnly())
		if err == nil {
			updates = w.Updates()
		} else if b.ctx.Err() == nil {
			b.cfg.Log.Warn("cannot follow "+b.cfg.Holds+"; trying again", "error", err)
		}
		tell() // about the entries so far
		for again := false; !again; tell() {
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
