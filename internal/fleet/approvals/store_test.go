package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/test/desktest"
	"github.com/corral-exec/corral/internal/test/errtest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

var ok, wantKind = errtest.None, errtest.Kind

func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// cluster is a message server with JetStream, for gateways with one key.
type cluster struct {
	*natstest.Embedded
	t   testing.TB
	key nkeys.KeyPair
	log *logtest.Log
}

func newCluster(t testing.TB) *cluster {
	key, _ := natstest.NewKey(t)
	return &cluster{Embedded: natstest.NewEmbedded(t, server.Options{}), t: t, key: key, log: &logtest.Log{}}
}

// Open implements desktest.World.
func (c *cluster) Open(gateway string, opts approval.Options) (*approval.Desk, error) {
	log := slog.New(slog.NewTextHandler(c.log, nil))
	s, err := Open(c.t.Context(), natskv.Config{Conn: linktest.Over(c.t, c.Connect()), Key: c.key, Log: log})
	if err != nil {
		return nil, err
	}
	opts.Store, opts.Gateway, opts.Log = s, gateway, log
	return approval.OpenDesk(opts)
}

func (c *cluster) desk(gateway string, change ...func(*approval.Options)) *approval.Desk {
	c.t.Helper()
	opts := approval.Options{Remember: func(context.Context, approval.Record, []policy.Rule) error { return nil }}
	for _, f := range change {
		f(&opts)
	}
	d, err := c.Open(gateway, opts)
	ok(c.t, err)
	c.t.Cleanup(func() { ok(c.t, d.Close()) })
	return d
}

func (c *cluster) stream() jetstream.Stream {
	c.t.Helper()
	js, err := jetstream.New(c.Connect())
	ok(c.t, err)
	s, err := js.Stream(c.t.Context(), "KV_"+BucketName)
	ok(c.t, err)
	return s
}

// Desks of two gateways do what one does, as one.
func TestDesks(t *testing.T) {
	var c *cluster // one server for all that are made while one test runs
	var owner testing.TB
	desktest.Run(t, desktest.Config{Gateways: 2, Runs: 15, New: func(t testing.TB) desktest.World {
		if owner != t {
			c, owner = newCluster(t), t
			return c
		}
		js, err := jetstream.New(c.Connect())
		ok(t, err)
		ok(t, js.DeleteStream(t.Context(), "KV_"+BucketName))
		return c
	}})
}

func ask(t testing.TB, d *approval.Desk, req approval.Request) approval.Record {
	t.Helper()
	r, err := d.Ask(t.Context(), req)
	ok(t, err)
	return r
}

func knows(t testing.TB, d *approval.Desk, r approval.Record) approval.Record {
	t.Helper()
	var got approval.Record
	soon(t, "another gateway knows it", func() bool {
		var err error
		got, err = d.Get("", r.ID)
		return err == nil && got.Version >= r.Version
	})
	return got
}

// here is a request for a command on the gateway's own machine.
func here(command string) approval.Request {
	r := desktest.Request(command)
	r.Host, r.Node = corral.HostGateway, ""
	r.Binding.Node, r.Binding.NodeSum = "", ""
	return r
}

// What is for the machine of one gateway can be answered at another and used at that
// one alone. What is asked for again at another is another request: it runs there.
func TestOwnMachine(t *testing.T) {
	c := newCluster(t)
	a, b := c.desk("a"), c.desk("b")
	r := ask(t, a, here("git push"))
	got := knows(t, b, r)
	if got.Gateway != "a" || b.Own(got) || b.Usable(got) || !a.Own(got) {
		t.Errorf("%+v", got)
	}
	if ask(t, b, here("git push")).ID == r.ID {
		t.Error("what another gateway was asked for is what this one was asked for")
	}
	r, err := b.Answer(t.Context(), r.ID, approval.Answer{Decision: approval.AllowOnce, By: "anna"})
	ok(t, err)
	claim := desktest.Claim(here("git push"), "c")
	_, err = b.Consume(t.Context(), r.ID, claim)
	wantKind(t, err, corral.ErrDenied, `the machine of the gateway "a"`)
	knows(t, a, r)
	used, err := a.Consume(t.Context(), r.ID, claim)
	if err != nil || used.State != approval.Consumed {
		t.Errorf("%+v, %v", used, err)
	}
	node := ask(t, a, desktest.Request("x"))
	if got := knows(t, b, node); !b.Usable(got) {
		t.Errorf("%+v", got)
	}
}

// remembered is what a gateway is to remember.
type remembered struct {
	mu    sync.Mutex
	fails error
	list  []string
}

func (m *remembered) add(_ context.Context, r approval.Record, rules []policy.Rule) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, fmt.Sprint(r.Slug, " ", rules[0].Pattern))
	return m.fails
}

func (m *remembered) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.list
	m.list = nil
	return list
}

// What is to be always allowed is remembered by the gateway that asked, once, also
// if it was away when that was said.
func TestAllowAlwaysElsewhere(t *testing.T) {
	c := newCluster(t)
	var atA, atB remembered
	with := func(m *remembered) func(*approval.Options) {
		return func(o *approval.Options) { o.Remember = m.add }
	}
	a, b := c.desk("a", with(&atA)), c.desk("b", with(&atB))
	always := func(r approval.Record) {
		t.Helper()
		knows(t, b, r)
		_, err := b.Answer(t.Context(), r.ID, approval.Answer{Decision: approval.AllowAlways, Scope: approval.ScopeProgram})
		ok(t, err)
	}
	one := ask(t, a, here("git push"))
	always(one)
	soon(t, "a remembers it", func() bool { r, err := a.Get("", one.ID); return err == nil && r.Remembered })
	if got := atA.take(); len(got) != 1 || got[0] != one.Slug+" /bin/x" {
		t.Errorf("%q", got)
	}
	two := ask(t, a, here("git pull"))
	ok(t, a.Close())
	always(two)
	a = c.desk("a", with(&atA))
	soon(t, "a remembers it when it is back", func() bool { r, err := a.Get("", two.ID); return err == nil && r.Remembered })
	ok(t, a.Close())
	a = c.desk("a", with(&atA))
	ask(t, a, here("x"))
	if got := atA.take(); len(got) != 1 || got[0] != two.Slug+" /bin/x" {
		t.Errorf("%q", got)
	}
	// Of a node's the node remembers it.
	always(ask(t, a, desktest.Request("y")))
	if got := append(atB.take(), atA.take()...); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// A gateway that is killed while something is pending loses nothing: it is listed,
// answered and waited for elsewhere, and there when it is back.
func TestGatewayKilled(t *testing.T) {
	c := newCluster(t)
	conn := c.Connect()
	s, err := Open(t.Context(), natskv.Config{Conn: linktest.Over(t, conn), Key: c.key})
	ok(t, err)
	a, err := approval.OpenDesk(approval.Options{Store: s, Gateway: "a"})
	ok(t, err)
	b := c.desk("b")
	r := ask(t, a, here("git push"))
	node := ask(t, a, desktest.Request("x"))
	conn.Close() // and says nothing more
	t.Cleanup(func() { _ = a.Close() })
	knows(t, b, r)
	knows(t, b, node)
	if list := b.List(approval.Filter{State: approval.Pending}); len(list) != 2 {
		t.Errorf("%+v", list)
	}
	done := make(chan approval.Record, 1)
	go func() {
		got, err := b.Wait(t.Context(), r.ID)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	for _, id := range []string{r.ID, node.ID} {
		_, err := b.Answer(t.Context(), id, approval.Answer{Decision: approval.AllowOnce, By: "anna"})
		ok(t, err)
	}
	if got := <-done; got.State != approval.Allowed {
		t.Errorf("%+v", got)
	}
	// What is for a node can be used where it is asked for again.
	_, err = b.Consume(t.Context(), node.ID, desktest.Claim(desktest.Request("x"), "c"))
	ok(t, err)
	a2 := c.desk("a")
	_, err = a2.Consume(t.Context(), r.ID, desktest.Claim(here("git push"), "c"))
	ok(t, err)
	_, err = a2.Consume(t.Context(), node.ID, desktest.Claim(desktest.Request("x"), "d"))
	wantKind(t, err, corral.ErrDenied, "used by the command c")
}

// While the message server is away what is known is known, and what is decided
// waits for it.
func TestServerRestarts(t *testing.T) {
	c := newCluster(t)
	a, b := c.desk("a"), c.desk("b")
	r := ask(t, a, here("x"))
	knows(t, b, r)
	c.Stop()
	if got, err := b.Get("", r.Slug); err != nil || got.State != approval.Pending {
		t.Errorf("%+v, %v", got, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.Answer(t.Context(), r.ID, approval.Answer{Decision: approval.Deny, By: "anna"})
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("answered without anybody to note it: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	c.Start()
	ok(t, <-done)
	soon(t, "a learns of it", func() bool { got, err := a.Get("", r.ID); return err == nil && got.State == approval.Denied })
}

// Whoever can write to the message server can forge neither a request nor an
// answer, nor have an approval be good once more. It is refused, and logged.
func TestHostile(t *testing.T) {
	c := newCluster(t)
	a, b := c.desk("a"), c.desk("b")
	req := desktest.Request("x")
	r := ask(t, a, req)
	kvStream := c.stream()
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	kv, err := js.KeyValue(t.Context(), BucketName)
	ok(t, err)
	value := func(version int) []byte {
		t.Helper()
		e, err := kv.Get(t.Context(), fmt.Sprint(r.ID, ".", version))
		ok(t, err)
		return e.Value()
	}
	knows(t, b, r)
	r, err = b.Answer(t.Context(), r.ID, approval.Answer{Decision: approval.AllowOnce})
	ok(t, err)
	knows(t, a, r)
	used, err := a.Consume(t.Context(), r.ID, desktest.Claim(req, "c"))
	ok(t, err)
	knows(t, b, used)
	pending := ask(t, a, desktest.Request("y"))
	knows(t, b, pending)

	// The gateways' own key, in the hands of one that has another version.
	signed, err := natskv.Open(t.Context(), natskv.Config{Conn: linktest.Over(t, c.Connect()), Name: BucketName, Holds: "the approvals", Key: c.key, MaxText: 8 << 20})
	ok(t, err)
	t.Cleanup(signed.Close)
	another, _ := natstest.NewKey(t)
	evil, err := natskv.Open(t.Context(), natskv.Config{Conn: linktest.Over(t, c.Connect()), Name: BucketName, Holds: "the approvals", Key: another})
	ok(t, err)
	t.Cleanup(evil.Close)
	forged := pending
	forged.Version, forged.State, forged.Verdict, forged.AnsweredBy = 2, approval.Allowed, approval.AllowOnce, "anna"
	text, err := json.Marshal(forged)
	ok(t, err)
	next := pending.ID + ".2"
	put := func(key string, value []byte) func() {
		return func() { _, err := kv.Put(t.Context(), key, value); ok(t, err) }
	}
	create := func(in *natskv.Bucket, key string, text []byte) func() {
		return func() { _, err := in.Create(t.Context(), key, text); ok(t, err) }
	}
	for _, h := range []struct {
		name string
		do   func()
		says string
	}{
		{"nothing", put(next, nil), "cut short"},
		{"nonsense", put(next, []byte(strings.Repeat("nonsense", 100))), "not signed with the key"},
		{"too much", put(next, bytes.Repeat([]byte("x"), 500_000)), "not signed with the key"},
		{"with another key", func() { ok(t, signed.PurgeNow(t.Context(), next)); create(evil, next, text)() }, "not signed with the key"},
		{"what was allowed, of another record", put(next, value(2)), "not signed with the key"},
		{"what was allowed, after it was used", put(r.ID+".4", value(2)), "not signed with the key"},
		{"what was allowed, once more", put(r.ID+".2", value(2)), "it was replaced long ago"},
		{"what was used, once more", put(r.ID+".3", value(3)), "it was replaced long ago"},
		{"no JSON", create(signed, "x.1", []byte("{")), "unexpected end"},
		{"of another one", create(signed, "x.2", text), "the record of another one"},
		{"no number", create(signed, "x.y", text), "it has no number"},
		{"a number in other words", create(signed, pending.ID+".02", text), "it has no number"},
		{"too large", create(signed, "x.3", bytes.Repeat([]byte(" "), maxRecord+1)), "its head cannot be read"},
	} {
		before := strings.Count(c.log.String(), "refused what is among the approvals")
		h.do()
		soon(t, h.name+" is refused at both", func() bool {
			return strings.Count(c.log.String(), "refused what is among the approvals") >= before+2
		})
		if !strings.Contains(c.log.String(), h.says) {
			t.Errorf("%s: it is not logged that %s", h.name, h.says)
		}
		for _, d := range []*approval.Desk{a, b} {
			if got, err := d.Get("", r.ID); err != nil || got.State != approval.Consumed {
				t.Errorf("%s: %+v, %v", h.name, got.State, err)
			}
			if got, err := d.Get("", pending.ID); err != nil || got.State != approval.Pending {
				t.Errorf("%s: %+v, %v", h.name, got.State, err)
			}
			if n := len(d.List(approval.Filter{})); n != 2 {
				t.Errorf("%s: there are %d approvals", h.name, n)
			}
		}
	}
	// What stands where an answer would be stands in its way, and the answer says so.
	_, err = b.Answer(t.Context(), pending.ID, approval.Answer{Decision: approval.AllowOnce})
	wantKind(t, err, corral.ErrDenied, "cannot trust the approvals")
	ok(t, signed.PurgeNow(t.Context(), next))
	_, err = b.Answer(t.Context(), pending.ID, approval.Answer{Decision: approval.Deny})
	ok(t, err)
	// A gateway that begins sees what can be believed.
	late := c.desk("c")
	if list := late.List(approval.Filter{}); len(list) != 2 {
		t.Errorf("%+v", list)
	}
	info, err := kvStream.Info(t.Context())
	ok(t, err)
	if info.Config.MaxAge != Age {
		t.Errorf("the server forgets after %v", info.Config.MaxAge)
	}
}

// What every gateway has forgotten is at the message server no more.
func TestForgotten(t *testing.T) {
	c := newCluster(t)
	s, err := Open(t.Context(), natskv.Config{Conn: linktest.Over(t, c.Connect()), Key: c.key})
	ok(t, err)
	ok(t, s.Follow(func(approval.Record) {}))
	t.Cleanup(func() { ok(t, s.Close()) })
	var list []approval.Record
	for i := range 3 {
		r, err := s.Put(t.Context(), approval.Record{ID: corral.NewID(), Version: 1, Command: strings.Repeat("x", i*100_000)})
		ok(t, err)
		list = append(list, r)
	}
	if _, err := s.Put(t.Context(), list[0]); !errors.Is(err, approval.ErrStale) {
		t.Errorf("kept twice: %v", err)
	}
	for _, id := range []string{"", "a.b", "*", "a b"} {
		if _, err := s.Put(t.Context(), approval.Record{ID: id, Version: 1}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	ok(t, s.Tidy(list, nil))
	stream := c.stream()
	soon(t, "nothing is left", func() bool {
		info, err := stream.Info(t.Context())
		ok(t, err)
		return info.State.Msgs == 0
	})
}

// Whatever a gateway of another version signs is a record of that key, or refused.
func FuzzRecord(f *testing.F) {
	text, err := json.Marshal(approval.Record{ID: "a", Version: 2, State: approval.Allowed})
	ok(f, err)
	f.Add("a.2", text)
	f.Add("a.1", []byte("{}"))
	f.Add("a", []byte("null"))
	f.Add(".", []byte(`{"version":-1}`))
	s := &Store{versions: map[string]int64{"a": 1}}
	f.Fuzz(func(t *testing.T, key string, text []byte) {
		r, err := s.record(natskv.Entry{Key: key, Revision: 7, Text: text})
		if err == nil && (key != fmt.Sprint(r.ID, ".", r.Version) || r.Version <= s.versions[r.ID] || r.Seq != 7) {
			t.Errorf("%q is %+v", key, r)
		}
	})
}
