//go:build e2e

package natskv

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/natstest"
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
	var took time.Duration
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
		took += time.Since(began)
	}
	t.Logf("an entry is made on three servers within %v", (took / rounds).Round(time.Microsecond))
	if took/rounds > 100*time.Millisecond {
		t.Error("that is longer than it takes to do nothing but write")
	}
}
