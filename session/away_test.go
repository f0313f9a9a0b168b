package session

import (
	"context"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// dumb processes are on a node that does not answer.
type dumb struct{ corral.Executor }

func (x dumb) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return dumbProcess{p}, err
}

type dumbProcess struct{ corral.Process }

func (p dumbProcess) Log() corral.Log { return dumbLog{p.Process.Log()} }

type dumbLog struct{ corral.Log }

func (dumbLog) Stat(ctx context.Context) (corral.LogStat, error) {
	<-ctx.Done()
	return corral.LogStat{}, ctx.Err()
}

// A list of all sessions waits for those that are away at the same time, and not for one
// after the other.
func TestListOfTheAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.begin("sleep", Options{Background: true})
		r.m.cfg.Executor = func(context.Context, string) (corral.Executor, error) { return dumb{r.x}, nil }
		for range 5 {
			r.begin("sleep", Options{Background: true})
		}
		began := time.Now()
		list := r.agent().List(r.Context())
		away := 0
		for _, st := range list {
			if st.Unreachable {
				away++
			}
		}
		if took := time.Since(began); len(list) != 6 || away != 5 || took != lookLimit {
			r.Errorf("%d sessions, %d of them unreachable, after %v", len(list), away, took)
		}
	})
}
