package approvals

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/test/desktest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/policy/approval"
)

// watched is a dialer whose connections call before with what is about to be sent.
type watched struct{ before func([]byte) }

type watchedConn struct {
	net.Conn
	before func([]byte)
}

func (w watched) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &watchedConn{conn, w.before}, err
}

func (c *watchedConn) Write(b []byte) (int, error) {
	c.before(b)
	return c.Conn.Write(b)
}

// A record that another gateway purges while it is read, its parts first, does not have
// the others read and passed on once more.
func TestPurgedWhileRead(t *testing.T) {
	c := newCluster(t)
	ask(t, c.desk("a"), desktest.Request("x"))
	stream := c.stream()
	purge := func(keys string) {
		ok(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+BucketName+"."+keys)))
	}
	var counts atomic.Bool
	var asked atomic.Int32
	conn, err := nats.Connect(c.Connect().ConnectedUrl(), nats.SetCustomDialer(watched{func(b []byte) {
		if counts.Load() && bytes.Contains(b, []byte("STREAM.MSG.GET")) && asked.Add(1) == 3 { // after the record and its first part: for what is there in its place
			purge("large.*")
		}
	}}))
	ok(t, err)
	t.Cleanup(conn.Close)
	b, err := Open(t.Context(), natskv.Config{Conn: linktest.Over(t, conn), Key: c.key, Log: slog.New(slog.NewTextHandler(c.log, nil))})
	ok(t, err)
	t.Cleanup(func() { ok(t, b.Close()) })
	passed := 0
	b.changed = func(approval.Record) { passed++ }
	ok(t, b.catchUp(t.Context(), 0))
	seen := b.seen
	_, err = b.kv.Create(t.Context(), "large.1", []byte(strings.Repeat("x", 200<<10)))
	ok(t, err)
	purge("part.>")
	counts.Store(true)
	ok(t, b.catchUp(t.Context(), 0))
	if n := asked.Load(); n != 3 {
		t.Errorf("the server was asked %d times", n)
	}
	if b.seen != seen {
		t.Errorf("seen was %d, and is %d", seen, b.seen)
	}
	counts.Store(false)
	ok(t, b.catchUp(t.Context(), 0))
	if passed != 1 || c.log.String() != "" {
		t.Errorf("%d records were passed on: %s", passed, c.log.String())
	}
}
