package nodeexec_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// skewed is an executor on a machine whose clock is wrong.
type skewed struct {
	corral.Executor
	by time.Duration
}

func (x skewed) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	return skewedProcess{p, x.by}, err
}

func (x skewed) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := x.Executor.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return skewedProcess{p, x.by}, nil
}

type skewedProcess struct {
	corral.Process
	by time.Duration
}

func (p skewedProcess) Info() corral.Info {
	i := p.Process.Info()
	i.StartedAt = i.StartedAt.Add(p.by)
	return i
}

func (p skewedProcess) Wait(ctx context.Context) (corral.Exit, error) {
	e, err := p.Process.Wait(ctx)
	e.StartedAt, e.EndedAt = e.StartedAt.Add(p.by), e.EndedAt.Add(p.by)
	return e, err
}

// A node whose clock is wrong, by however much, joins, runs, reads, is found
// again after either side was restarted, and is away when it is away; and what it
// says of times is told by the clock of the gateway.
func TestClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.skew = skew
			r.open()
			host := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"cat": fakeexec.Cat, "sleep": fakeexec.Sleep}}
			t.Cleanup(func() {
				r.stop()
				if err := host.Close(); err != nil {
					t.Error(err)
				}
			})
			r.serve(skewed{host, skew})
			x := r.node()
			begun := time.Now()
			near := func(what string, at time.Time) {
				t.Helper()
				if at.Before(begun.Add(-5*time.Second)) || at.After(time.Now().Add(5*time.Second)) {
					t.Errorf("%s at %s, and it is %s", what, at, time.Now())
				}
			}
			p := start(t, x, corral.Command{ID: "cat", Args: []string{"cat"}, Stdin: true})
			near("it started", p.Info().StartedAt)
			if n, err := p.Write(t.Context(), []byte("text")); n != 4 || err != nil {
				t.Fatal(n, err)
			}
			r.end() // another life of the gateway
			r.open()
			if r.node() == nil {
				t.Fatal("no node")
			}
			p, err := r.fabric.Attach(t.Context(), "cat")
			if err != nil {
				t.Fatal(err)
			}
			near("it started", p.Info().StartedAt)
			r.stop() // and one of the node's program
			for online := true; online; {
				online = r.fabric.List(t.Context())[0].Online
			}
			r.serve(skewed{host, skew})
			if r.node() == nil {
				t.Fatal("no node")
			}
			if err := p.CloseStdin(t.Context()); err != nil {
				t.Fatal(err)
			}
			exit, err := p.Wait(t.Context())
			if err != nil || !exit.Success() {
				t.Fatal(exit, err)
			}
			near("it ended", exit.EndedAt)
			if took := exit.EndedAt.Sub(exit.StartedAt); took < 0 || took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if got := readAll(t, p); string(got) != "text" {
				t.Errorf("it printed %q", got)
			}
			if err := p.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := r.fabric.Attach(t.Context(), "cat"); !errors.Is(err, corral.ErrNotFound) {
				t.Error(err)
			}
			p = start(t, r.node(), corral.Command{Args: []string{"sleep"}, Timeout: 50 * time.Millisecond, Grace: -1})
			if exit, err := p.Wait(t.Context()); err != nil || exit.Reason != corral.ReasonTimeout {
				t.Errorf("it has a time-out, and ended with %v, %v", exit, err)
			} else {
				near("it timed out", exit.EndedAt)
			}
			if got := r.lines.String(); got != "" {
				t.Errorf("the log says %s", got)
			}
		})
	}
}
