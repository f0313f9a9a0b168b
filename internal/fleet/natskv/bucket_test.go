package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/errtest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

var ok, wantKind = errtest.None, errtest.Kind

// start starts a message server, and returns how to connect to it.
func start(t testing.TB, jetStream bool) func() *nats.Conn {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: jetStream, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true})
	ok(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the message server does not start")
	}
	return func() *nats.Conn {
		conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", srv.Addr().(*net.TCPAddr).Port))
		ok(t, err)
		t.Cleanup(conn.Close)
		return conn
	}
}

func open(t testing.TB, conn *nats.Conn, key nkeys.KeyPair, change ...func(*Config)) *Bucket {
	t.Helper()
	cfg := Config{Conn: linktest.Over(t, conn), Name: "test", Holds: "the test", Key: key}
	for _, c := range change {
		c(&cfg)
	}
	b, err := Open(t.Context(), cfg)
	ok(t, err)
	t.Cleanup(b.Close)
	return b
}

func text(n int) []byte { return bytes.Repeat([]byte("corral "), n/7+1)[:n] }

func TestEntries(t *testing.T) {
	connect := start(t, true)
	key, _ := natstest.NewKey(t)
	a, b := open(t, connect(), key), open(t, connect(), key)
	news := b.News("*.*")
	if _, err := b.Last(t.Context(), "*.*"); !errors.Is(err, ErrNone) {
		t.Errorf("nothing is there: %v", err)
	}
	sizes := []int{0, 1, partSize, partSize + 1, 5*partSize + 7}
	var revisions []uint64
	for i, size := range sizes {
		revision, err := a.Create(t.Context(), fmt.Sprint("x.", i), text(size))
		ok(t, err)
		revisions = append(revisions, revision)
		e, err := b.Last(t.Context(), "x.*")
		if err != nil || e.Err != nil || e.Revision != revision || e.Key != fmt.Sprint("x.", i) || !bytes.Equal(e.Text, text(size)) {
			t.Fatalf("%d bytes: %d bytes of %s at %d, %v, %v", size, len(e.Text), e.Key, e.Revision, e.Err, err)
		}
	}
	select {
	case <-news:
	case <-time.After(poll / 2):
		t.Error("nobody hears of it")
	}
	for i, after := 0, uint64(0); ; i++ {
		e, err := b.Next(t.Context(), "*.*", after)
		if errors.Is(err, ErrNone) && i == len(sizes) {
			break
		}
		if err != nil || e.Revision != revisions[i] {
			t.Fatalf("the next after %d is %d, %v", after, e.Revision, err)
		}
		after = e.Revision
	}
	var each []uint64
	ok(t, b.Each(t.Context(), "*.*", func(e Entry) error { each = append(each, e.Revision); return e.Err }))
	if !slices.Equal(each, revisions) {
		t.Errorf("%v, not %v", each, revisions)
	}
	if _, err := b.Create(t.Context(), "x.1", nil); !errors.Is(err, ErrExists) {
		t.Errorf("made twice: %v", err)
	}
	_, err := b.Create(t.Context(), "x.9", text(1<<20+1))
	wantKind(t, err, corral.ErrInvalid, "bytes")

	ok(t, a.PurgeNow(t.Context(), "x.0"))
	if _, err := b.Last(t.Context(), "x.0"); !errors.Is(err, ErrNone) {
		t.Errorf("it was purged: %v", err)
	}
	a.PurgeParts("x.4")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err = b.Last(t.Context(), "x.4"); err != nil || time.Now().After(end) {
			break
		}
	}
	if !Replaced(err) {
		t.Errorf("it has no parts any more: %v", err)
	}
}

// An entry of which nobody said that it was made is not made twice, and not taken
// for somebody else's.
func TestAnswerLost(t *testing.T) {
	connect := start(t, true)
	key, _ := natstest.NewKey(t)
	b := open(t, connect(), key)
	publish := b.publish
	lost := 0
	b.publish = func(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
		ack, err := publish(ctx, m)
		if lost > 0 {
			lost--
			return nil, context.DeadlineExceeded
		}
		return ack, err
	}
	for i, size := range []int{3, 2 * partSize} {
		lost = 2
		k := fmt.Sprint("x.", i)
		revision, err := b.Create(t.Context(), k, text(size))
		ok(t, err)
		if e, err := b.Last(t.Context(), k); err != nil || e.Revision != revision || !bytes.Equal(e.Text, text(size)) {
			t.Errorf("%+v, %v", e, err)
		}
		lost = 1
		if _, err := b.Create(t.Context(), k, text(size)); !errors.Is(err, ErrExists) {
			t.Errorf("made again by another call: %v", err)
		}
	}
	lost = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.Create(ctx, "x.9", nil)
	wantKind(t, err, corral.ErrUnavailable, "cannot write the test")
}

// A write that was not answered and is still under way when it is tried again is this
// gateway's own: it becomes the entry, with all of its parts.
func TestOwnWriteUnderWay(t *testing.T) {
	key, _ := natstest.NewKey(t)
	b := open(t, start(t, true)(), key)
	publish := b.publish
	tries := map[string]int{}
	b.publish = func(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
		tries[m.Subject]++
		switch tries[m.Subject] {
		case 1:
			return nil, context.DeadlineExceeded
		case 2:
			return nil, &jetstream.APIError{Code: 400, ErrorCode: wrongLastInSight}
		case 3: // by now it is carried out
			_, err := publish(ctx, m)
			ok(t, err)
		}
		return publish(ctx, m)
	}
	large := text(partSize + 1)
	revision, err := b.Create(t.Context(), "x.1", large)
	ok(t, err)
	e, err := b.Last(t.Context(), "x.1")
	if err != nil || e.Err != nil || e.Revision != revision || !bytes.Equal(e.Text, large) {
		t.Errorf("%d bytes at %d, %v, %v", len(e.Text), e.Revision, e.Err, err)
	}
	for subject, n := range tries {
		if n != 3 {
			t.Errorf("%s was tried %d times", subject, n)
		}
	}
}

// Who can write to the message server can make no entry, and move none.
func TestForged(t *testing.T) {
	connect := start(t, true)
	conn := connect()
	key, _ := natstest.NewKey(t)
	another, _ := natstest.NewKey(t)
	b := open(t, conn, key)
	kv, err := b.keyValue(t.Context())
	ok(t, err)
	_, err = b.Create(t.Context(), "x.1", []byte("one"))
	ok(t, err)
	good, err := kv.Get(t.Context(), "x.1")
	ok(t, err)
	_, err = b.Create(t.Context(), "x.2", text(2*partSize))
	ok(t, err)
	other := open(t, conn, key, func(c *Config) { c.Name = "other" })
	_, err = other.Create(t.Context(), "x.3", []byte("one"))
	ok(t, err)
	otherKV, err := other.keyValue(t.Context())
	ok(t, err)
	elsewhere, err := otherKV.Get(t.Context(), "x.3")
	ok(t, err)
	evil := open(t, conn, another)
	strange, err := evil.seal("x.3", newHead(nil), nil)
	ok(t, err)
	huge, err := b.seal("x.3", head{Version: 1, Size: 1 << 30, Parts: "x"}, nil)
	ok(t, err)
	newer, err := b.seal("x.3", head{Version: 2}, nil)
	ok(t, err)
	lies, err := b.seal("x.3", newHead([]byte("two")), []byte("one"))
	ok(t, err)
	for name, value := range map[string][]byte{
		"nothing": nil, "nonsense": []byte("nonsense"), "another's": strange, "of another key": good.Value(), "of another bucket": elsewhere.Value(),
		"cut short": good.Value()[:len(good.Value())-1], "huge": huge, "newer": newer, "another text": lies,
	} {
		revision, err := kv.Put(t.Context(), "x.3", value)
		ok(t, err)
		e, err := b.Last(t.Context(), "x.3")
		if err != nil || e.Revision != revision || e.Text != nil || e.Key != "x.3" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		wantKind(t, e.Err, corral.ErrDenied, "cannot trust the test")
		// It does not stand in the way of what was there.
		n := 0
		ok(t, b.Each(t.Context(), "x.*", func(e Entry) error {
			if e.Err == nil {
				n++
			}
			return nil
		}))
		if n != 2 {
			t.Errorf("%s: %d entries can be read", name, n)
		}
	}
	// Parts are not signed by themselves.
	keys, err := kv.Keys(t.Context())
	ok(t, err)
	for _, k := range keys {
		if strings.HasPrefix(k, partPrefix) {
			_, err := kv.Put(t.Context(), k, text(partSize+1))
			ok(t, err)
		}
	}
	e, err := b.Last(t.Context(), "x.2")
	ok(t, err)
	wantKind(t, e.Err, corral.ErrDenied, "another one than was signed")
}

// What is under a key is the gateways' word, or nothing.
func FuzzUnseal(f *testing.F) {
	key, public := natstest.NewKey(f)
	b := &Bucket{cfg: Config{Name: "test", Holds: "the test", Key: key, MaxText: 1 << 20}, public: public}
	good, err := b.seal("x.1", newHead([]byte("one")), []byte("one"))
	ok(f, err)
	parts, err := b.seal("x.1", head{Version: 1, Size: 1 << 20, Parts: "x"}, nil)
	ok(f, err)
	for _, v := range [][]byte{good, parts, good[:signatureSize], nil, []byte("x")} {
		f.Add("x.1", v)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		h, got, err := b.unseal(key, value)
		switch {
		case err != nil:
		case key != "x.1" || !bytes.Equal(value, good) && !bytes.Equal(value, parts):
			t.Errorf("%+v, although nobody signed %q", h, value)
		case h.Parts != "" && got != nil, h.Parts == "" && string(got) != "one":
			t.Errorf("%+v has the text %q", h, got)
		}
	})
}

// A bucket that would forget is not used, and without JetStream there is none.
func TestUnfitServers(t *testing.T) {
	connect := start(t, true)
	key, _ := natstest.NewKey(t)
	js, err := jetstream.New(connect())
	ok(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "test", Storage: jetstream.MemoryStorage})
	ok(t, err)
	_, err = Open(t.Context(), Config{Conn: linktest.Over(t, connect()), Name: "test", Holds: "the test", Key: key})
	wantKind(t, err, corral.ErrInvalid, "in memory alone")

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = Open(ctx, Config{Conn: linktest.Over(t, start(t, false)()), Name: "test", Holds: "the test", Key: key})
	wantKind(t, err, corral.ErrUnavailable, "cannot open the test at the message server")
	if hint := corral.Hint(err); !strings.Contains(hint, "JetStream") {
		t.Error(hint)
	}
}
