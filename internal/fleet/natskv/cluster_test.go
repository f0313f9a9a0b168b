//go:build e2e

package natskv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// Of many who make the same entry one does, at whichever of three servers.
func TestOneMakesIt(t *testing.T) {
	servers := natstest.StartCluster(t, 3, "")
	key, _ := natstest.NewKey(t)
	var all []*Bucket
	for _, s := range servers {
		conn, err := nats.Connect(s.URL, nats.Secure(&tls.Config{InsecureSkipVerify: true}))
		ok(t, err)
		t.Cleanup(conn.Close)
		all = append(all, open(t, conn, key))
	}
	const rounds, each = 30, 4
	var took []time.Duration
	for n := range rounds {
		k := fmt.Sprint("x.", n)
		var won atomic.Int32
		var winner atomic.Pointer[string]
		var work sync.WaitGroup
		for i, b := range all {
			for j := range each {
				work.Go(func() {
					says := fmt.Sprintf("%d of %d", j, i)
					_, err := b.Create(t.Context(), k, []byte(says))
					switch {
					case err == nil:
						won.Add(1)
						winner.Store(&says)
					case !errors.Is(err, ErrExists):
						t.Error(err)
					}
				})
			}
		}
		work.Wait()
		e, err := all[n%3].Last(t.Context(), k)
		if won.Load() != 1 || err != nil || string(e.Text) != *winner.Load() {
			t.Fatalf("%d made %s, which is %q, %v", won.Load(), k, e.Text, err)
		}
		began := time.Now()
		_, err = all[n%3].Create(t.Context(), fmt.Sprint("y.", n), nil)
		ok(t, err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("an entry is made on three servers within %v", took[rounds/2].Round(time.Microsecond))
	if took[rounds/2] > 100*time.Millisecond {
		t.Error("that is longer than it takes to do nothing but write")
	}
}

// A gateway that begins while the servers do waits for as many as it needs.
func TestServersBegin(t *testing.T) {
	servers := natstest.StartCluster(t, 3, "")
	conn, err := nats.Connect(servers[0].URL, nats.Secure(&tls.Config{InsecureSkipVerify: true}))
	ok(t, err)
	t.Cleanup(conn.Close)
	key, _ := natstest.NewKey(t)
	servers[2].Kill()
	few := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b, err := Open(ctx, Config{Conn: linktest.Over(t, conn), Name: "few", Holds: "the test", Key: key})
		if err == nil {
			b.Close()
		}
		return err
	}
	for end := time.Now().Add(Patience); ; {
		err := few()
		if says(err, tooFewServers) && errors.Is(err, corral.ErrUnavailable) && strings.Contains(corral.Hint(err), "at least 3 servers") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("on two servers of three: %v", err)
		}
	}
	opened := make(chan error, 1)
	go func() {
		b, err := Open(t.Context(), Config{Conn: linktest.Over(t, conn), Name: "few", Holds: "the test", Key: key})
		if err == nil {
			_, err = b.Create(t.Context(), "x", []byte("1"))
			b.Close()
		}
		opened <- err
	}()
	time.Sleep(time.Second)
	servers[2].Restart()
	ok(t, <-opened)
}
