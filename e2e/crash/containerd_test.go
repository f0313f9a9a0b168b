//go:build e2e

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/moments"
)

// While containerd is killed and started again, commands run on, without a byte
// of output lost, new ones start in the sandbox that is there, and a gateway that
// begins in the meantime finds everything once containerd is back.
func TestContainerdRestarts(t *testing.T) {
	for _, way := range []string{"fds", "frames"} {
		t.Run(way, func(t *testing.T) {
			const restarts = 4
			d := enginetest.NewDaemon(t)
			pl := newPlace(t, onContainerd+way)
			pl.Engine = d.Address
			rng := moments.Seeded(t, "CORRAL_CRASH_SEED")
			ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
			defer cancel()
			x := pl.here(t)
			sessions := []*session{
				printing("plain", 1, 3_000_000, 10_000, 15*time.Millisecond, corral.LogLimit{}),
				printing("ring", 2, 100_000_000, 100_000, 2*time.Millisecond, small),
				onTerminal("terminal", 3, 400_000, 1_000, 10*time.Millisecond),
				both("both", 200, "0.02"),
			}
			begin := func(s *session) {
				p, err := insist(ctx, x, s.Cmd)
				if err != nil {
					t.Fatalf("%s: %v", s.Cmd.ID, err)
				}
				s.learn(t, event{What: "started", Info: p.Info()})
			}
			for _, s := range sessions {
				begin(s)
			}
			for k := range restarts {
				time.Sleep(moments.Between(rng, 0, 300*time.Millisecond))
				d.Kill(t)
				s := newSession(fmt.Sprintf("while-down-%d", k), "sleep 0.2; exit %d", k)
				s.code = k
				sessions = append(sessions, s)
				begin(s)
				time.Sleep(moments.Between(rng, 0, 300*time.Millisecond))
				d.Start(t)
			}
			// The next gateway begins while there is no containerd.
			if err := x.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
			d.Kill(t)
			var background sync.WaitGroup
			defer background.Wait()
			background.Go(func() {
				time.Sleep(300 * time.Millisecond)
				d.Start(t)
			})
			x = pl.here(t)
			for _, s := range sessions {
				p, err := x.Attach(ctx, s.Cmd.ID)
				for errors.Is(err, corral.ErrUnavailable) && ctx.Err() == nil {
					time.Sleep(20 * time.Millisecond)
					p, err = x.Attach(ctx, s.Cmd.ID)
				}
				if err != nil {
					t.Errorf("%s: %v", s.Cmd.ID, err)
					continue
				}
				s.finish(ctx, t, p)
				ran, err := os.ReadFile(filepath.Join(pl.Work, "runs", s.Cmd.ID))
				if string(ran) != "ran\n" || err != nil {
					t.Errorf("%s ran other than once: %q, %v", s.Cmd.ID, ran, err)
				}
			}
		})
	}
}
