package corral_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// fakePool is a pool of suitable nodes.
type fakePool []fakeNodes

func (p fakePool) Select(_ context.Context, name string) (corral.Executor, string, error) {
	return p.from(max(slices.IndexFunc(p, func(n fakeNodes) bool { return n.name == name }), 0))
}

func (p fakePool) from(i int) (corral.Executor, string, error) {
	if i >= len(p) {
		return nil, "", corral.Errorf(corral.ErrUnavailable, "", "none is left")
	}
	return fakeMember{p[i].Executor, p, i}, p[i].name, nil
}

func (p fakePool) Attach(ctx context.Context, id string) (corral.Process, error) {
	for _, n := range p {
		if proc, err := n.Attach(ctx, id); err == nil {
			return proc, nil
		}
	}
	return nil, corral.Errorf(corral.ErrNotFound, "", "nobody has %s", id)
}

type fakeMember struct {
	*fakeexec.Executor
	pool fakePool
	i    int
}

func (m fakeMember) Next(context.Context) (corral.Executor, string, error) {
	return m.pool.from(m.i + 1)
}

func TestRouterGoesOnInAPool(t *testing.T) {
	away := corral.Errorf(corral.ErrUnavailable, "start it", "it is away")
	lost := corral.Errorf(corral.ErrLost, "attach", "it did not answer: %w", away)
	denied := corral.Errorf(corral.ErrDenied, "", "it does not want to")
	for _, tc := range []struct {
		name   string
		faults [3]error // of Start
		guard  map[string]error
		node   string // where it runs
		kind   error
		texts  []string
		asked  []string // what the guard was asked about
		starts [3]int
	}{
		{name: "the first", node: "a", asked: []string{"a"}, starts: [3]int{1, 0, 0}},
		{name: "the first is away", faults: [3]error{away}, node: "b", asked: []string{"a", "b"}, starts: [3]int{0, 1, 0}},
		{name: "two are away", faults: [3]error{away, away}, node: "c", asked: []string{"a", "b", "c"}, starts: [3]int{0, 0, 1}},
		{name: "all are away", faults: [3]error{away, away, away}, kind: corral.ErrUnavailable, texts: []string{"it is away; and it is away; and it is away"}, asked: []string{"a", "b", "c"}},
		{name: "it is not known whether it runs", faults: [3]error{lost}, kind: corral.ErrLost, texts: []string{"did not answer"}, asked: []string{"a"}},
		{name: "it is not known whether it runs on the second", faults: [3]error{away, lost}, kind: corral.ErrLost, texts: []string{"did not answer"}, asked: []string{"a", "b"}},
		{name: "the first denies it", faults: [3]error{denied}, kind: corral.ErrDenied, asked: []string{"a"}},
		{name: "the guard cannot ask the first", guard: map[string]error{"a": away}, node: "b", asked: []string{"a", "b"}, starts: [3]int{0, 1, 0}},
		{name: "the guard denies the second", faults: [3]error{away}, guard: map[string]error{"b": denied}, kind: corral.ErrDenied, asked: []string{"a", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pool fakePool
			for i, name := range []string{"a", "b", "c"} {
				ex := &fakeexec.Executor{Info: corral.Info{Node: name}, Programs: map[string]fakeexec.Program{"true": fakeexec.Print("", "", 0)}}
				ex.Fault = func(op fakeexec.Op, _ string) error {
					if op == fakeexec.OpStart {
						return tc.faults[i]
					}
					return nil
				}
				t.Cleanup(func() {
					if err := ex.Close(); err != nil {
						t.Error(err)
					}
				})
				pool = append(pool, fakeNodes{name, ex})
			}
			var asked []string
			r := corral.NewRouter(corral.RouterOptions{Host: corral.HostNode, Node: "pool:gpu", Nodes: pool,
				Guard: func(_ context.Context, cmd corral.Command, route corral.Route) (corral.Command, error) {
					asked = append(asked, route.Node)
					if len(cmd.Decided.Exec) > 0 {
						t.Error("what was decided on for one node goes to another")
					}
					cmd.Decided.Exec = []string{"true"}
					return cmd, tc.guard[route.Node]
				}})
			p, err := r.Start(t.Context(), corral.Command{ID: "job", Shell: "true"})
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
			starts := [3]int{pool[0].Starts(), pool[1].Starts(), pool[2].Starts()}
			if starts != tc.starts {
				t.Errorf("started %v", starts)
			}
			if tc.kind != nil {
				if !errors.Is(err, tc.kind) || slices.ContainsFunc(tc.texts, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || p.Info().Node != tc.node {
				t.Fatalf("%v", err)
			}
			again, err := r.Start(t.Context(), corral.Command{ID: "job", Shell: "true"})
			if err != nil || again.Info().Node != tc.node || len(asked) != len(tc.asked) {
				t.Errorf("started again: %v", err)
			}
			if q, err := r.Attach(t.Context(), "job"); err != nil || q.Info().Node != tc.node {
				t.Errorf("attached: %v", err)
			}
		})
	}
}

// A call whose context has ended tries no other node.
func TestRouterEndsInAPool(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first, second := &fakeexec.Executor{}, &fakeexec.Executor{}
	first.Fault = func(fakeexec.Op, string) error {
		cancel()
		return corral.Errorf(corral.ErrUnavailable, "", "it is away")
	}
	r := corral.NewRouter(corral.RouterOptions{Host: corral.HostNode, Nodes: fakePool{{"a", first}, {"b", second}}})
	if _, err := r.Start(ctx, corral.Command{Shell: "true"}); !errors.Is(err, corral.ErrUnavailable) || second.Starts() > 0 {
		t.Errorf("%v, %d starts", err, second.Starts())
	}
}
