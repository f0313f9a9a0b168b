package pairing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// cluster is a message server with JetStream, for several gateways.
type cluster struct {
	*natstest.Embedded
	t testing.TB
}

func newCluster(t testing.TB) *cluster {
	return &cluster{Embedded: natstest.NewEmbedded(t, server.Options{SyncAlways: true}), t: t}
}

func gatewayPair(n int) nkeys.KeyPair {
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, []byte{byte(n), byte(n >> 8), 7, 31: 0})
	if err != nil {
		panic(err)
	}
	return pair
}

func (c *cluster) bucket() *Bucket {
	c.t.Helper()
	b, err := OpenBucket(c.t.Context(), natskv.Config{Conn: linktest.Over(c.t, c.Connect()), Key: gatewayPair(60000)})
	ok(c.t, err)
	return b
}

// gateway is the registry of one, and what it was told.
func (c *cluster) gateway() (*Registry, *told) {
	c.t.Helper()
	heard := &told{}
	return open(c.t, "", quick, func(o *Options) { o.Bucket, o.Changed = c.bucket(), heard.add }), heard
}

type told struct {
	mu   sync.Mutex
	list []string
}

func (h *told) add(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, string(c.Event)+" "+c.Node.Name)
}

func (h *told) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

// soon waits for what another gateway did.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func knows(r *Registry, keys ...int) func() bool {
	return func() bool { return slices.Equal(authorised(r, 20), keys) }
}

// A decision at one gateway counts at all.
func TestSeveralGateways(t *testing.T) {
	c := newCluster(t)
	a, heardA := c.gateway()
	b, heardB := c.gateway()
	for _, r := range []*Registry{a, b} { // both hear what is asked
		ask(t, r, 1, "web")
		ask(t, r, 2, "web")
	}
	n, err := a.Approve(ID(key(1)), Approval{By: "anna", Labels: map[string]string{"pool": "gpu"}})
	ok(t, err)
	begun := time.Now()
	soon(t, "b learns of a node", knows(b, 1))
	if took := time.Since(begun); took > 3*time.Second { // which is less than between two looks
		t.Errorf("that took %v", took)
	}
	got, err := b.Node("web")
	ok(t, err)
	if diff := cmp.Diff(n, got); diff != "" {
		t.Error(diff)
	}
	_, err = b.Approve(ID(key(1)), Approval{By: "bert"})
	wantKind(t, err, corral.ErrConflict, "was approved by anna")
	// Who was perhaps not told repeats it, at either; another answer is another.
	for _, r := range []*Registry{a, b} {
		again, err := r.Approve(ID(key(1)), Approval{By: "anna", Labels: map[string]string{"pool": "gpu"}})
		ok(t, err)
		if diff := cmp.Diff(n, again); diff != "" {
			t.Errorf("approved again:\n%s", diff)
		}
		for _, other := range []Approval{{By: "anna"}, {By: "anna", Name: "x", Labels: n.Labels}, {Labels: n.Labels}} {
			_, err := r.Approve(ID(key(1)), other)
			wantKind(t, err, corral.ErrConflict, "was approved by anna")
		}
	}
	_, err = b.Approve(ID(key(2)), Approval{By: "bert", Name: "web"})
	wantKind(t, err, corral.ErrConflict, "the name web is taken")
	second, err := b.Approve(ID(key(2)), Approval{By: "bert"})
	ok(t, err)
	if second.Name != "web-2" {
		t.Errorf("two nodes are called %s", second.Name)
	}
	_, err = a.Rename(ID(key(2)), "api") // of which it may not know yet
	if err != nil {
		soon(t, "a learns of a node", knows(a, 1, 2))
		_, err = a.Rename(ID(key(2)), "api")
	}
	ok(t, err)
	soon(t, "b learns of a name", func() bool { n, err := b.Node("api"); return err == nil && n.ID == second.ID })

	_, err = b.Revoke("api", "bert")
	ok(t, err)
	wantAuthorised(t, b, 1)
	begun = time.Now()
	soon(t, "a learns of a revocation", knows(a, 1))
	if took := time.Since(begun); took > 3*time.Second { // which is less than between two looks
		t.Errorf("that took %v", took)
	}
	ok(t, a.Forget("api"))
	soon(t, "b forgets a node", func() bool { return len(b.Nodes()) == 1 })

	secret, _ := token(t, a, 2)
	soon(t, "b learns of a token", func() bool { return len(b.Tokens()) == 1 })
	for _, r := range []*Registry{b, a} { // both hear it
		_, err = r.Redeem(proof(t, secret, 3), key(3), home, Hello{Name: "x"})
		ok(t, err)
	}
	if left := b.Tokens(); len(left) != 1 || left[0].Left != 1 {
		t.Errorf("%+v, although one node was paired", left)
	}

	soon(t, "all is told", func() bool { return len(heardA.all()) >= 8 && len(heardB.all()) >= 8 })
	want := []string{"asked ", "asked ", "paired web", "paired web-2", "renamed api", "revoked api", "forgotten api", "paired x"}
	for _, heard := range []*told{heardA, heardB} {
		if diff := cmp.Diff(want, heard.all()); diff != "" {
			t.Error(diff)
		}
	}
}

// The first writer wins, and nothing gets lost, however many write at once.
func TestManyGateways(t *testing.T) {
	c := newCluster(t)
	const gateways, keys, uses = 3, 8, 4
	var all []*Registry
	for range gateways {
		r, _ := c.gateway()
		all = append(all, r)
	}
	secret, _ := token(t, all[0], uses)
	for _, r := range all {
		soon(t, "everybody knows the token", func() bool { return len(r.Tokens()) == 1 })
	}
	var work sync.WaitGroup
	var approved, redeemed atomic.Int32
	for _, r := range all {
		for n := range keys {
			ask(t, r, n, "n")
		}
	}
	for g, r := range all {
		for n := range keys {
			work.Go(func() {
				_, err := r.Approve(ID(key(n)), Approval{By: fmt.Sprint("gateway ", g)})
				if err == nil {
					approved.Add(1)
				} else if !errors.Is(err, corral.ErrConflict) {
					t.Error(err)
				}
			})
		}
		for n := 100 + g*10; n < 110+g*10; n++ {
			p := proof(t, secret, n)
			work.Go(func() {
				_, err := r.Redeem(p, key(n), home, Hello{Name: "n"})
				if err == nil {
					redeemed.Add(1)
				} else if !errors.Is(err, corral.ErrDenied) {
					t.Error(err)
				}
			})
		}
	}
	work.Wait()
	if approved.Load() != keys || redeemed.Load() != uses {
		t.Errorf("%d approvals and %d uses of the token counted", approved.Load(), redeemed.Load())
	}
	for _, r := range all {
		soon(t, "everybody knows all", func() bool { return len(authorised(r, 200)) == keys+uses })
		names := map[string]bool{}
		for _, n := range r.Nodes() {
			names[n.Name] = true
		}
		if diff := cmp.Diff(all[0].Nodes(), r.Nodes()); diff != "" || len(names) != keys+uses {
			t.Errorf("%d names; %s", len(names), diff)
		}
	}
}

// While the message server is away nodes go on to be nodes, and what is decided
// waits for it. It has everything when it is back.
func TestServerRestarts(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	b, _ := c.gateway()
	pair(t, a, 1, "one")
	soon(t, "b knows it", knows(b, 1))
	ask(t, a, 2, "two")
	c.Stop()
	wantAuthorised(t, a, 1)
	done := make(chan error, 1)
	go func() { _, err := a.Approve(ID(key(2)), Approval{By: "anna"}); done <- err }()
	select {
	case err := <-done:
		t.Errorf("approved without anybody to note it: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	wantAuthorised(t, a, 1)
	c.Start()
	ok(t, <-done)
	wantAuthorised(t, a, 1, 2)
	soon(t, "b learns of it", knows(b, 1, 2))
	late, _ := c.gateway()
	wantAuthorised(t, late, 1, 2)
}

// A revocation counts where it was made, also if nobody can note it, and is not
// forgotten.
func TestRevokedWithoutServer(t *testing.T) {
	c := newCluster(t)
	bucket := c.bucket()
	bucket.most = 50 * time.Millisecond
	a := open(t, "", quick, func(o *Options) { o.Bucket = bucket })
	b, _ := c.gateway()
	pair(t, a, 1, "one")
	pair(t, a, 2, "two")
	soon(t, "b knows them", knows(b, 1, 2))
	c.Stop()
	_, err := a.Revoke("one", "anna")
	wantKind(t, err, corral.ErrUnavailable, "one is revoked, but")
	wantAuthorised(t, a, 2)
	c.Start()
	// Meanwhile b writes something else.
	_, err = b.Rename("two", "other")
	ok(t, err)
	soon(t, "a takes what b wrote", func() bool { n, err := a.Node(ID(key(2))); return err == nil && n.Name == "other" })
	wantAuthorised(t, a, 2)
	soon(t, "b learns of the revocation", knows(b, 2))
}

// A registry that does not fit into a message is in several.
func TestLargeRegistry(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	b, _ := c.gateway()
	secret, _ := token(t, a, 300)
	const nodes = 150
	for n := range nodes {
		_, err := a.Redeem(proof(t, secret, n), key(n), home, Hello{Name: "a-name-that-is-as-long-as-names-are", OS: strings.Repeat("x", 200)})
		ok(t, err)
	}
	soon(t, "b knows all", func() bool { return len(authorised(b, nodes)) == nodes })
	late, _ := c.gateway()
	if diff := cmp.Diff(a.Nodes(), late.Nodes()); diff != "" || len(late.Nodes()) != nodes {
		t.Error(diff)
	}
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	kv, err := js.KeyValue(t.Context(), BucketName)
	ok(t, err)
	text, err := a.now.Load().encode()
	ok(t, err)
	const partSize = 32 << 10
	parts := (len(text) + partSize - 1) / partSize
	if parts < 2 {
		t.Errorf("the registry has %d bytes", len(text))
	}
	var kept []string
	defer func() {
		if t.Failed() {
			t.Errorf("%d bytes are in %q", len(text), kept)
		}
	}()
	soon(t, "what is not used is gone", func() bool {
		kept, err = kv.Keys(t.Context())
		ok(t, err)
		return len(kept) == keptHeads+parts
	})
}

// Who can write to the message server can make nobody a node, and nobody a node
// again.
func TestForgedRegistry(t *testing.T) {
	c := newCluster(t)
	heard := &told{}
	a, err := Open(Options{Bucket: c.bucket(), GatewayKey: gateway, Changed: heard.add, code: quickCode})
	ok(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err == nil {
			t.Error("closed without an error, although what was to be written cannot be")
		}
	})
	conn := c.Connect()
	js, err := jetstream.New(conn)
	ok(t, err)
	kv, err := js.KeyValue(t.Context(), BucketName)
	ok(t, err)
	pair(t, a, 1, "one")
	head := func(number uint64) (string, []byte) {
		t.Helper()
		key := fmt.Sprint(headPrefix, number)
		e, err := kv.Get(t.Context(), key)
		ok(t, err)
		return key, e.Value()
	}
	number := func() uint64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.opts.Bucket.number
	}
	beforeKey, before := head(number())
	_, err = a.Revoke("one", "anna")
	ok(t, err)
	pair(t, a, 2, "two")
	_, good := head(number())
	nextKey := fmt.Sprint(headPrefix, number()+1)
	events := len(heard.all())

	// As a gateway would that has another key.
	st := newState()
	_, err = st.pair(key(9), "evil", false)
	ok(t, err)
	evil := newCluster(t)
	other, err := OpenBucket(t.Context(), natskv.Config{Conn: linktest.Over(t, evil.Connect()), Key: gatewayPair(60001)})
	ok(t, err)
	ok(t, other.write(st, patient))
	evilJS, err := jetstream.New(evil.Connect())
	ok(t, err)
	evilKV, err := evilJS.KeyValue(t.Context(), BucketName)
	ok(t, err)
	strange, err := evilKV.Get(t.Context(), headPrefix+"1")
	ok(t, err)
	ok(t, other.close())
	for _, forged := range []struct {
		name, key string
		value     []byte
	}{
		{"nothing", nextKey, nil}, {"nonsense", nextKey, []byte("nonsense")}, {"of another key", nextKey, strange.Value()},
		{"cut short", nextKey, good[:len(good)-1]}, {"with more", nextKey, append(slices.Clone(good), "x"...)},
		{"of before a revocation", beforeKey, before},
		{"that of before under the next key", nextKey, before}, {"under no number", headPrefix + "x", good},
	} {
		_, err := kv.Put(t.Context(), forged.key, forged.value)
		ok(t, err)
		a.mu.Lock()
		err = a.reload(brief)
		a.mu.Unlock()
		wantKind(t, err, corral.ErrDenied, "cannot trust the registry")
		wantAuthorised(t, a, 2)
		_, err = a.Rename("two", "other")
		wantKind(t, err, corral.ErrDenied)
		if forged.name == "of before a revocation" {
			continue // who never saw the other cannot tell
		}
		b, err := OpenBucket(t.Context(), natskv.Config{Conn: linktest.Over(t, conn), Key: gatewayPair(60000)})
		ok(t, err)
		r, err := Open(Options{Bucket: b, GatewayKey: gateway})
		wantKind(t, err, corral.ErrDenied, "cannot trust the registry")
		if _, is := r.Authorize(key(2)); is {
			t.Error("a registry that cannot be trusted has nodes")
		}
	}
	stream, err := js.Stream(t.Context(), "KV_"+BucketName)
	ok(t, err)
	ok(t, stream.Purge(t.Context()))
	_, err = a.Rename("two", "other")
	wantKind(t, err, corral.ErrUnavailable, "is gone from the message server")
	wantAuthorised(t, a, 2)
	if got := heard.all(); len(got) != events {
		t.Errorf("told %q", got[events:])
	}
}

// The text that a gateway knows may be at another revision once another server
// leads. It is what it was: the gateway goes on, and what it writes follows it.
func TestOtherRevision(t *testing.T) {
	c := newCluster(t)
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	a, heardA := c.gateway()
	b, _ := c.gateway()
	kv, err := js.KeyValue(t.Context(), BucketName)
	ok(t, err)
	pair(t, a, 1, "one")
	soon(t, "the other gateway knows it", knows(b, 1))
	events := len(heardA.all())
	again := func() {
		t.Helper()
		for _, r := range []*Registry{a, b} { // no news is on its way to them
			r.mu.Lock()
			defer r.mu.Unlock()
		}
		key := fmt.Sprint(headPrefix, a.opts.Bucket.number)
		e, err := kv.Get(t.Context(), key)
		ok(t, err)
		_, err = kv.Put(t.Context(), key, e.Value())
		ok(t, err)
	}
	again()
	for _, r := range []*Registry{a, b} {
		r.mu.Lock()
		err := r.reload(brief)
		r.mu.Unlock()
		ok(t, err)
	}
	again()
	_, err = a.Rename("one", "other") // without having read it
	ok(t, err)
	if got := heardA.all()[events:]; !slices.Equal(got, []string{"renamed other"}) {
		t.Errorf("told %q", got)
	}
	again()
	soon(t, "the other gateway knows the new name", func() bool { n, err := b.Node("other"); return err == nil && n.Name == "other" })
	again()
	_, err = b.Revoke("other", "anna")
	ok(t, err)
	soon(t, "the first gateway knows that it is revoked", knows(a))

	asleep := c.bucket()
	t.Cleanup(func() { ok(t, asleep.close()) })
	st, err := asleep.read(patient)
	ok(t, err)
	again()
	ok(t, asleep.write(st, patient)) // and not: it is stale
	pair(t, a, 2, "two")
	e, err := asleep.kv.Last(t.Context(), allHeads)
	ok(t, err)
	asleep.revision = e.Revision // what it knew was counted otherwise
	if st, err = asleep.read(patient); err != nil || st == nil || len(st.nodes) != 2 {
		t.Errorf("%+v, %v, of another text at the revision of the one that is known", st, err)
	}
}

// A gateway with another key is none of these.
func TestOtherGatewayKey(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	pair(t, a, 1, "one")
	b, err := OpenBucket(t.Context(), natskv.Config{Conn: linktest.Over(t, c.Connect()), Key: gatewayPair(60001)})
	ok(t, err)
	_, err = Open(Options{Bucket: b, GatewayKey: keyOf(nkeys.PrefixByteUser, 60001)})
	wantKind(t, err, corral.ErrDenied, "not signed with the key of this gateway")
	if hint := corral.Hint(err); !strings.Contains(hint, "gateway.seed") {
		t.Error(hint)
	}
	b = c.bucket()
	_, err = Open(Options{Bucket: b, GatewayKey: keyOf(nkeys.PrefixByteUser, 60001)})
	wantKind(t, err, corral.ErrInvalid, "another gateway key")
}

// A gateway that has slept for so long that the text after the one that it knows was
// purged does not put its own in that place.
func TestLongAsleep(t *testing.T) {
	c := newCluster(t)
	asleep := c.bucket()
	st, err := asleep.read(patient)
	ok(t, err)
	t.Cleanup(func() { ok(t, asleep.close()) })
	a, _ := c.gateway()
	pair(t, a, 1, "one")
	for n := range keptHeads + 5 {
		label := fmt.Sprint(n)
		_, err := a.Relabel("one", map[string]*string{"n": &label})
		ok(t, err)
	}
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	stream, err := js.Stream(t.Context(), "KV_"+BucketName)
	ok(t, err)
	soon(t, "the first texts are purged", func() bool {
		info, err := stream.Info(t.Context())
		ok(t, err)
		return info.State.Msgs == keptHeads
	})
	if err := asleep.write(st, patient); !errors.Is(err, errStale) {
		t.Errorf("written in the place of another text: %v", err)
	}
	if now, err := asleep.read(patient); err != nil || len(now.nodes) != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	late, _ := c.gateway()
	wantAuthorised(t, late, 1)
}

// A bucket that would forget is not used, and without JetStream there is none.
func TestUnfitServers(t *testing.T) {
	c := newCluster(t)
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: BucketName, Storage: jetstream.MemoryStorage})
	ok(t, err)
	_, err = OpenBucket(t.Context(), natskv.Config{Conn: linktest.Over(t, c.Connect()), Key: gatewayPair(60000)})
	wantKind(t, err, corral.ErrInvalid, "in memory alone")

	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	ok(t, err)
	plain.Start()
	t.Cleanup(func() { plain.Shutdown(); plain.WaitForShutdown() })
	if !plain.ReadyForConnections(10 * time.Second) {
		t.Fatal("the message server does not start")
	}
	conn, err := nats.Connect(plain.ClientURL())
	ok(t, err)
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = OpenBucket(ctx, natskv.Config{Conn: linktest.Over(t, conn), Key: gatewayPair(60000)})
	wantKind(t, err, corral.ErrUnavailable, "at the message server")
	if hint := corral.Hint(err); !strings.Contains(hint, "JetStream") {
		t.Error(hint)
	}
}
