package corral_test

import (
	"context"
	"errors"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// removedWhenFound is an executor that loses each process right after Attach found it,
// as if another program removed it.
type removedWhenFound struct{ *fakeexec.Executor }

func (x removedWhenFound) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := x.Executor.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := p.Wait(ctx); err != nil {
		return nil, err
	}
	return p, p.Remove(ctx)
}

// nodesOf is one node.
type nodesOf struct{ corral.Executor }

func (n nodesOf) Select(context.Context, string) (corral.Executor, string, error) {
	return n.Executor, "builder-1", nil
}

// If a process is removed after the Router found it, starting again does not run the
// command: the guard has not been asked.
func TestRouterRunsNothingWhenStartingAgain(t *testing.T) {
	for _, host := range []corral.Host{corral.HostGateway, corral.HostNode} {
		t.Run(string(host), func(t *testing.T) {
			pl := newPlaces(t)
			asked := 0
			r := pl.router(func(o *corral.RouterOptions) {
				o.Host = host
				o.Gateway = removedWhenFound{pl.gateway}
				o.Nodes = nodesOf{removedWhenFound{pl.node}}
				o.Guard = func(_ context.Context, cmd corral.Command, _ corral.Route) (corral.Command, error) {
					asked++
					return cmd, nil
				}
			})
			cmd := corral.Command{ID: "job", Shell: "true"}
			mustStart(t, r, cmd)
			p := mustStart(t, r, cmd)
			if exit, err := p.Wait(t.Context()); err != nil || !exit.Success() {
				t.Errorf("the process that was found: %v, %v", exit, err)
			}
			if starts := pl.gateway.Starts() + pl.node.Starts(); asked != 1 || starts != 1 {
				t.Errorf("the guard was asked %d times, and the command ran %d times", asked, starts)
			}
		})
	}
}

// silent is an executor that does not report the digests of its processes, such as a
// node of an earlier version.
type silent struct{ *fakeexec.Executor }

type silentProcess struct{ corral.Process }

func (p silentProcess) Info() corral.Info {
	info := p.Process.Info()
	info.Digest = ""
	return info
}

func (x silent) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return silentProcess{p}, nil
}

func (x silent) Attach(ctx context.Context, id string) (corral.Process, error) {
	p, err := x.Executor.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return silentProcess{p}, nil
}

// The Router has to ask an executor that reports no digest to start the command again.
// That may run it if the process is gone, so the guard comes first.
func TestRouterAsksAgainWhatIsNotKnown(t *testing.T) {
	for _, tc := range []struct {
		name string
		opt  func(*corral.RouterOptions)
		want int // how often the guard is asked about starting again
	}{
		{"gateway", func(o *corral.RouterOptions) { o.Host = corral.HostGateway }, 1},
		{"node", func(o *corral.RouterOptions) { o.Host = corral.HostNode }, 1},
		{"sandbox", func(*corral.RouterOptions) {}, 0},
		{"sandbox off", func(o *corral.RouterOptions) { o.SandboxOn = false }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := newPlaces(t)
			asked := 0
			refuse := error(nil)
			r := pl.router(func(o *corral.RouterOptions) {
				o.Gateway, o.Nodes, o.Sandbox = silent{pl.gateway}, nodesOf{silent{pl.node}}, silent{pl.sandbox}
				o.Guard = func(_ context.Context, cmd corral.Command, _ corral.Route) (corral.Command, error) {
					asked++
					return cmd, refuse
				}
				tc.opt(o)
			})
			cmd := corral.Command{ID: "job", Shell: "sleep"}
			first := mustStart(t, r, cmd)
			asked = 0
			again := mustStart(t, r, cmd)
			if asked != tc.want {
				t.Errorf("the guard was asked %d times, want %d", asked, tc.want)
			}
			if again.Info().PID != first.Info().PID || again.Info().Host != first.Info().Host {
				t.Errorf("another process: %+v and %+v", first.Info(), again.Info())
			}
			other := cmd
			other.Shell = "true"
			if _, err := r.Start(t.Context(), other); !errors.Is(err, corral.ErrConflict) {
				t.Errorf("another command: %v", err)
			}
			if refuse = corral.ErrDenied; tc.want > 0 {
				if _, err := r.Start(t.Context(), cmd); !errors.Is(err, corral.ErrDenied) {
					t.Errorf("refused: %v", err)
				}
			}
			if s := pl.starts(); s[0]+s[1]+s[2] != 1 {
				t.Errorf("starts %v", s)
			}
		})
	}
}

// A node that claims to have an ID, and does not say of which command, is not sent the
// command.
func TestRouterSendsNothingToANodeThatClaimsAnID(t *testing.T) {
	pl := newPlaces(t)
	r := pl.router(func(o *corral.RouterOptions) { o.Nodes = nodesOf{silent{pl.node}} })
	cmd := corral.Command{ID: "job", Shell: "sleep"}
	mustStart(t, pl.node, cmd)
	if p, err := r.Start(t.Context(), cmd); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("%v, %v", p, err)
	}
	if got := pl.starts(); got != [3]int{0, 0, 1} {
		t.Errorf("starts %v", got)
	}
}
