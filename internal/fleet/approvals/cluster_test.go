//go:build e2e

package approvals

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/test/desktest"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/policy/approval"
)

// contest is one approval: two gateways answer it, and then two commands at each
// want to use it.
type contest struct {
	id       string
	answered atomic.Int32 // times that an answer was said to count
	used     atomic.Int32
	lost     atomic.Bool // it was not said how something went
	verdict  atomic.Value
	user     atomic.Value
}

// again does something until the message server says how it went.
func again(t *testing.T, lost *atomic.Bool, do func() error) error {
	for end := time.Now().Add(time.Minute); ; {
		err := do()
		if !errors.Is(err, corral.ErrUnavailable) {
			return err
		}
		lost.Store(true) // it may be done nevertheless
		if time.Now().After(end) {
			t.Errorf("it is still not available: %v", err)
			return err
		}
	}
}

// Of three servers the one that leads is killed while two gateways answer approvals
// and use them: what was said to be so is, at both, and nothing is so twice.
func TestLeaderKilled(t *testing.T) {
	servers := natstest.StartCluster(t, 3, "")
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL)
	}
	key, _ := natstest.NewKey(t)
	var desks []*approval.Desk
	var conn *nats.Conn
	for _, name := range []string{"a", "b"} {
		var err error
		conn, err = nats.Connect(strings.Join(urls, ","), nats.Secure(&tls.Config{InsecureSkipVerify: true}),
			nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
		ok(t, err)
		t.Cleanup(conn.Close)
		s, err := Open(t.Context(), natskv.Config{Conn: linktest.Over(t, conn), Key: key})
		ok(t, err)
		d, err := approval.OpenDesk(approval.Options{Store: s, Gateway: name, MaxPending: 1000, MaxPerAgent: 1000})
		ok(t, err)
		t.Cleanup(func() { ok(t, d.Close()) })
		desks = append(desks, d)
	}

	const before, after = 30, 20
	var list []*contest
	var longest time.Duration
	round := func(n int) {
		began := time.Now()
		c := &contest{}
		list = append(list, c)
		req := desktest.Request(fmt.Sprint("x ", n))
		var r approval.Record
		err := again(t, &c.lost, func() (err error) { r, err = desks[n%2].Ask(t.Context(), req); return err })
		ok(t, err)
		c.id = r.ID
		var work sync.WaitGroup
		for g, d := range desks {
			soon(t, "both gateways know it", func() bool { _, err := d.Get("", r.ID); return err == nil })
			work.Go(func() {
				v := []approval.Verdict{approval.AllowOnce, approval.Deny}[(n+g)%2]
				err := again(t, &c.lost, func() error {
					_, err := d.Answer(t.Context(), r.ID, approval.Answer{Decision: v, By: fmt.Sprint("g", g)})
					return err
				})
				switch {
				case err == nil:
					c.answered.Add(1)
					c.verdict.Store(v)
				case !errors.Is(err, corral.ErrConflict):
					t.Errorf("answer %d at %d: %v", n, g, err)
				}
			})
		}
		work.Wait()
		for g, d := range desks {
			for i := range 2 {
				work.Go(func() {
					if _, err := d.Wait(t.Context(), r.ID); err != nil {
						t.Error(err)
					}
					id := fmt.Sprintf("c%d-%d", g, i)
					err := again(t, &c.lost, func() error { _, err := d.Consume(t.Context(), r.ID, desktest.Claim(req, id)); return err })
					switch {
					case err == nil:
						c.used.Add(1)
						c.user.Store(id)
					case !errors.Is(err, corral.ErrDenied):
						t.Errorf("use %d at %d: %v", n, g, err)
					}
				})
			}
		}
		work.Wait()
		longest = max(longest, time.Since(began))
	}
	for n := range before {
		round(n)
	}
	t.Logf("without a fault an approval is asked for, answered and used within %v", longest.Round(time.Millisecond))
	leader := leads(t, conn, servers)
	longest = 0
	var work sync.WaitGroup
	work.Go(func() {
		time.Sleep(20 * time.Millisecond) // somewhere in the middle of it
		leader.Kill()
	})
	for n := range after {
		round(before + n)
	}
	work.Wait()
	t.Logf("%s, which led, was killed; then within %v", leader.Name, longest.Round(time.Millisecond))
	unsaid := 0
	for n, c := range list {
		if c.lost.Load() {
			unsaid++
		}
		// Who was not told that it counted hears that somebody, who is it itself, was first.
		if a := c.answered.Load(); a > 1 || a == 0 && !c.lost.Load() {
			t.Errorf("approval %d was answered %d times", n, a)
		}
		if u := c.used.Load(); u > 1 {
			t.Errorf("approval %d was used %d times", n, u)
		}
		for _, d := range desks {
			var got approval.Record
			soon(t, "both gateways know what became of it", func() bool {
				var err error
				got, err = d.Get("", c.id)
				return err == nil && (got.State == approval.Consumed || got.State == approval.Denied)
			})
			if v := c.verdict.Load(); v != nil && got.Verdict != v {
				t.Errorf("approval %d was answered %s, and is %s", n, v, got.Verdict)
			}
			if u := c.user.Load(); u != nil && got.CommandID != u {
				t.Errorf("approval %d was used by %s, and is by %q", n, u, got.CommandID)
			}
		}
	}
	t.Logf("of %d approvals it was not said at once of %d how it went", len(list), unsaid)
}

// leads is the server that leads what the approvals are kept by.
func leads(t *testing.T, conn *nats.Conn, servers []*natstest.Server) *natstest.Server {
	t.Helper()
	js, err := jetstream.New(conn)
	ok(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_"+BucketName)
	ok(t, err)
	for _, one := range servers {
		if info := s.CachedInfo().Cluster; info != nil && info.Leader == one.Name && len(info.Replicas) == 2 {
			return one
		}
	}
	t.Fatalf("it is on %+v", s.CachedInfo().Cluster)
	return nil
}
