package runner_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/runner"
)

// leaving is an executor whose commands leave one process each. That process gets SIGTERM,
// and ends after the duration lasts.
type leaving struct {
	corral.Executor
	lasts time.Duration

	mu  sync.Mutex
	got []corral.Signal
	end time.Time
}

type left struct {
	corral.Process
	x *leaving
}

func (x *leaving) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return left{p, x}, err
}

func (p left) Wait(ctx context.Context) (corral.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	exit.Orphans = []int{7}
	return exit, err
}

func (p left) Signal(ctx context.Context, s corral.Signal) error {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	if s == corral.SIGTERM {
		p.x.end = time.Now().Add(p.x.lasts)
	}
	if !p.x.end.IsZero() && !time.Now().Before(p.x.end) {
		return corral.ErrEnded
	}
	if !slices.Contains(p.x.got, s) {
		p.x.got = append(p.x.got, s)
	}
	if err := p.Process.Signal(ctx, s); !errors.Is(err, corral.ErrEnded) {
		return err
	}
	return nil
}

// What a command leaves when it is stopped has the rest of the grace to end, and no more.
func TestStopReachesWhatIsLeft(t *testing.T) {
	for lasts, killed := range map[time.Duration]bool{time.Second: false, time.Hour: true} {
		synctest.Test(t, func(t *testing.T) {
			x := &leaving{Executor: fake(t, fakeexec.Sleep), lasts: lasts}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			r, err := runner.Run(ctx, x, corral.Command{Shell: "x", Grace: 5 * time.Second}, runner.Options{})
			if !errors.Is(err, context.DeadlineExceeded) || r.Exit.Signal != corral.SIGTERM {
				t.Errorf("%v, %v", r.Exit, err)
			}
			if got := slices.Contains(x.got, corral.SIGKILL); got != killed {
				t.Errorf("after %v: %v", lasts, x.got)
			}
			if took := time.Since(begun) - time.Minute; took < min(lasts, 5*time.Second) || took > 6*time.Second {
				t.Errorf("after %v it took %v", lasts, took)
			}
		})
	}
}
