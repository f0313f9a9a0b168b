package corral_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/located"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
)

// fakeNodes is one paired node.
type fakeNodes struct {
	name string
	*fakeexec.Executor
}

func (n fakeNodes) Select(_ context.Context, name string) (corral.Executor, string, error) {
	if name != "" && !strings.HasPrefix(n.name, name) {
		return nil, "", corral.Errorf(corral.ErrUnavailable, "", "no node %q", name)
	}
	return n.Executor, n.name, nil
}

// places are the three executors of a test's Router. Each fails with its fault.
type places struct {
	sandbox, gateway, node *fakeexec.Executor

	mu    sync.Mutex
	fault map[*fakeexec.Executor]map[fakeexec.Op]error
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	p := &places{fault: map[*fakeexec.Executor]map[fakeexec.Op]error{}}
	fake := func(info corral.Info) *fakeexec.Executor {
		ex := &fakeexec.Executor{Info: info, Programs: map[string]fakeexec.Program{
			"true": fakeexec.Print("", "", 0), "sleep": fakeexec.Sleep,
		}}
		ex.Fault = func(op fakeexec.Op, _ string) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.fault[ex][op]
		}
		t.Cleanup(func() {
			if err := ex.Close(); err != nil {
				t.Error(err)
			}
		})
		return ex
	}
	p.sandbox = fake(corral.Info{Host: corral.HostSandbox, Sandboxed: true, Warnings: []string{"From the executor."}})
	p.gateway = fake(corral.Info{Host: corral.HostGateway, Sandboxed: true}) // the Router knows better
	p.node = fake(corral.Info{Host: corral.HostGateway, Node: "builder-1"})  // a node's own view
	return p
}

// breaks makes op of ex fail from now on; nil mends it.
func (p *places) breaks(ex *fakeexec.Executor, op fakeexec.Op, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault[ex] == nil {
		p.fault[ex] = map[fakeexec.Op]error{}
	}
	p.fault[ex][op] = err
}

func (p *places) router(change func(*corral.RouterOptions)) *corral.Router {
	opt := corral.RouterOptions{SandboxOn: true, Sandbox: p.sandbox, Gateway: p.gateway, Nodes: fakeNodes{"builder-1", p.node}}
	if change != nil {
		change(&opt)
	}
	return corral.NewRouter(opt)
}

func (p *places) starts() [3]int {
	return [3]int{p.sandbox.Starts(), p.gateway.Starts(), p.node.Starts()}
}

func mustStart(t *testing.T, ex corral.Executor, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := ex.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start(%+v): %v", cmd, err)
	}
	return p
}

func TestRouterTellsWhereItReallyRan(t *testing.T) {
	off := func(o *corral.RouterOptions) { o.SandboxOn = false }
	for _, tc := range []struct {
		name   string
		change func(*corral.RouterOptions)
		cmd    corral.Command
		want   corral.Info
	}{
		{"sandbox", nil, corral.Command{}, corral.Info{Host: corral.HostSandbox, Sandboxed: true, Warnings: []string{"From the executor."}}},
		{"elevated", nil, corral.Command{Elevated: true}, corral.Info{Host: corral.HostGateway}},
		{"node by prefix", nil, corral.Command{Host: corral.HostNode, Node: "build"}, corral.Info{Host: corral.HostNode, Node: "builder-1"}},
		{"bound node", func(o *corral.RouterOptions) { o.Host, o.Node = corral.HostNode, "builder-1" }, corral.Command{}, corral.Info{Host: corral.HostNode, Node: "builder-1"}},
		{"sandbox off", off, corral.Command{}, corral.Info{Host: corral.HostGateway, Notice: "the sandbox is off: no container, no approval"}},
		{"sandbox off, gateway asked for", off, corral.Command{Host: corral.HostGateway}, corral.Info{Host: corral.HostGateway}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPlaces(t).router(tc.change)
			tc.cmd.Shell = "true"
			p := mustStart(t, r, tc.cmd)
			got := p.Info()
			check := func(how string, got corral.Info) {
				if got.Digest != tc.cmd.Digest() {
					t.Errorf("the digest of %s is %q", how, got.Digest)
				}
				got.ID, got.PID, got.StartedAt, got.Digest = "", 0, tc.want.StartedAt, ""
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Info of %s (-want +got):\n%s", how, diff)
				}
			}
			check("Start", got)
			again, err := r.Attach(t.Context(), got.ID)
			if err != nil {
				t.Fatal(err)
			}
			check("Attach", again.Info())
		})
	}
}

func TestRouterRefusesBeforeItStarts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corral.RouterOptions)
		cmd    corral.Command
		kind   error
		text   string
		hint   string
	}{
		{"no command", nil, corral.Command{Shell: " "}, corral.ErrInvalid, "the command is empty", "provide"},
		{"unknown host", nil, corral.Command{Shell: "true", Host: "moon"}, corral.ErrInvalid, `unknown host "moon"`, "sandbox, gateway or node"},
		{"configured host unknown", func(o *corral.RouterOptions) { o.Host = "auto" }, corral.Command{Shell: "true"}, corral.ErrInvalid, `unknown host "auto"`, ""},
		{"not allowed", nil, corral.Command{Shell: "true", Host: corral.HostGateway}, corral.ErrDenied, "requested gateway; configured host is unset", "elevated"},
		{"node named for another host", nil, corral.Command{Shell: "true", Node: "builder-1"}, corral.ErrInvalid, `node "builder-1" is named, but the command goes to host sandbox`, "host=node"},
		{"unknown node", nil, corral.Command{Shell: "true", Host: corral.HostNode, Node: "x"}, corral.ErrUnavailable, `no node "x"`, ""},
		{"the call's node goes first", func(o *corral.RouterOptions) { o.Node = "builder-1" }, corral.Command{Shell: "true", Host: corral.HostNode, Node: "x"}, corral.ErrUnavailable, `no node "x"`, ""},
		{"no node paired", func(o *corral.RouterOptions) { o.Nodes = nodeexec.None{} }, corral.Command{Shell: "true", Host: corral.HostNode}, corral.ErrUnavailable, "no node is paired", "use host sandbox or gateway"},
		{"no nodes at all", func(o *corral.RouterOptions) { o.Nodes = nil }, corral.Command{Shell: "true", Host: corral.HostNode}, corral.ErrUnavailable, "host node is not set up", "set this one up"},
		{"sandbox on without one", func(o *corral.RouterOptions) { o.Sandbox = nil }, corral.Command{Shell: "true"}, corral.ErrUnavailable, "host sandbox is not set up", ""},
		{"no gateway", func(o *corral.RouterOptions) { o.Gateway, o.SandboxOn = nil, false }, corral.Command{Shell: "true"}, corral.ErrUnavailable, "host gateway is not set up", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := newPlaces(t)
			_, err := pl.router(tc.change).Start(t.Context(), tc.cmd)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || !strings.Contains(corral.Hint(err), tc.hint) {
				t.Errorf("error %q, hint %q", err, corral.Hint(err))
			}
			if pl.starts() != [3]int{} {
				t.Errorf("something was started: %v", pl.starts())
			}
		})
	}
}

// The table's row for an unreachable sandbox, executed.
func TestRouterNeverFallsBackToTheGateway(t *testing.T) {
	for _, tc := range []struct {
		err  error
		hint string
	}{
		{corral.Errorf(corral.ErrUnavailable, "", "no engine"), "start the container engine"},
		{corral.Errorf(corral.ErrUnavailable, "mount the socket", "no engine"), "mount the socket"},
	} {
		pl := newPlaces(t)
		pl.breaks(pl.sandbox, fakeexec.OpStart, tc.err)
		_, err := pl.router(nil).Start(t.Context(), corral.Command{Shell: "true", ID: "a"})
		if !errors.Is(err, corral.ErrUnavailable) || err.Error() != "no engine" || !strings.Contains(corral.Hint(err), tc.hint) {
			t.Errorf("error %q, hint %q", err, corral.Hint(err))
		}
		p := mustStart(t, pl.router(nil), corral.Command{Shell: "true", ID: "a", Elevated: true})
		if p.Info().Host != corral.HostGateway || pl.starts() != [3]int{0, 1, 0} {
			t.Errorf("elevated ran on %s, starts %v", p.Info().Host, pl.starts())
		}
	}
}

func TestRouterStartsAnIDOnce(t *testing.T) {
	pl := newPlaces(t)
	first := pl.router(nil)
	cmd := corral.Command{Shell: "sleep", ID: "job"}
	mustStart(t, first, cmd)

	elevated := cmd
	elevated.Elevated = true
	toNode := cmd
	toNode.Host = corral.HostNode
	fresh := pl.router(nil) // as after a restart: it remembers nothing
	off := pl.router(func(o *corral.RouterOptions) { o.SandboxOn = false })
	for _, tc := range []struct {
		name   string
		router *corral.Router
		cmd    corral.Command
	}{{"same", first, cmd}, {"elevated", first, elevated}, {"node", first, toNode}, {"restarted", fresh, elevated}, {"sandbox off", off, cmd}} {
		p, err := tc.router.Start(t.Context(), tc.cmd)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if p.Info().Host != corral.HostSandbox {
			t.Errorf("%s: runs on %s", tc.name, p.Info().Host)
		}
	}
	other := elevated
	other.Shell = "true"
	if _, err := fresh.Start(t.Context(), other); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("another command by the same ID: %v", err)
	}
	if pl.starts() != [3]int{1, 0, 0} {
		t.Errorf("starts %v, want one in the sandbox", pl.starts())
	}
}

// The answer to a start got lost, and the host is unreachable. Nothing may start that
// ID elsewhere until the host says that it does not know it.
// No host has a fresh ID, so slow or silent hosts are not asked. Later starts find the
// process by its ID.
func TestRouterAsksNobodyAboutAFreshID(t *testing.T) {
	pl := newPlaces(t)
	var asked atomic.Int32
	for _, ex := range []*fakeexec.Executor{pl.sandbox, pl.gateway, pl.node} {
		ex.Fault = func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpAttach {
				asked.Add(1)
			}
			return nil
		}
	}
	r := pl.router(nil)
	for _, tc := range []struct {
		id    string
		fresh bool
		asked int32
	}{
		{"made-up", true, 0}, {"made-up", false, 1}, {"sent", false, 3},
	} {
		asked.Store(0)
		mustStart(t, r, corral.Command{ID: tc.id, Shell: "true", Decided: decided.About{Fresh: tc.fresh}})
		if got := asked.Load(); got != tc.asked {
			t.Errorf("%s, fresh %t: %d hosts were asked, not %d", tc.id, tc.fresh, got, tc.asked)
		}
	}
	if got := pl.starts(); got != [3]int{2, 0, 0} {
		t.Errorf("started %v", got)
	}
}

func TestRouterDoesNotStartElsewhereWhatMayRun(t *testing.T) {
	pl := newPlaces(t)
	r := pl.router(nil)
	cmd := corral.Command{Shell: "sleep", ID: "job"}
	pl.breaks(pl.sandbox, fakeexec.OpStarted, corral.Errorf(corral.ErrLost, "", "the engine went away"))
	if _, err := r.Start(t.Context(), cmd); !errors.Is(err, corral.ErrLost) {
		t.Fatal(err)
	}
	pl.breaks(pl.sandbox, fakeexec.OpStarted, nil)
	pl.breaks(pl.sandbox, fakeexec.OpAttach, corral.Errorf(corral.ErrUnavailable, "", "no engine"))
	cmd.Elevated = true
	if _, err := r.Start(t.Context(), cmd); !errors.Is(err, corral.ErrUnavailable) || pl.gateway.Starts() != 0 {
		t.Fatalf("starts %v, error %v", pl.starts(), err)
	}
	pl.breaks(pl.sandbox, fakeexec.OpAttach, nil)
	if p := mustStart(t, r, cmd); p.Info().Host != corral.HostSandbox || pl.starts() != [3]int{1, 0, 0} {
		t.Errorf("runs on %s, starts %v", p.Info().Host, pl.starts())
	}
	pl.breaks(pl.sandbox, fakeexec.OpAttach, corral.ErrNotFound)
	pl.breaks(pl.node, fakeexec.OpAttach, corral.Errorf(corral.ErrUnavailable, "", "switched off")) // harmless: it never ran there
	if p := mustStart(t, r, cmd); p.Info().Host != corral.HostGateway {
		t.Errorf("runs on %s after the sandbox had forgotten it", p.Info().Host)
	}
}

// Every host takes a second to start anything, so that all callers have looked
// for the ID before it exists.
func TestRouterConcurrentStartsOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := newPlaces(t)
		for _, ex := range []*fakeexec.Executor{pl.sandbox, pl.gateway, pl.node} {
			ex.Fault = func(op fakeexec.Op, _ string) error {
				if op == fakeexec.OpStart {
					time.Sleep(time.Second)
				}
				return nil
			}
		}
		r := pl.router(nil)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				cmd := corral.Command{Shell: "sleep", ID: "job", Elevated: i%3 == 1}
				if i%3 == 2 {
					cmd.Host = corral.HostNode
				}
				if _, err := r.Start(t.Context(), cmd); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s := pl.starts(); s[0]+s[1]+s[2] != 1 {
			t.Errorf("starts %v, want one in all", s)
		}
	})
}

func TestRouterAttach(t *testing.T) {
	down := corral.Errorf(corral.ErrUnavailable, "switch it on", "no answer")
	for _, tc := range []struct {
		name string
		here func(*places) *fakeexec.Executor
		down func(*places) []*fakeexec.Executor
		kind error
	}{
		{"in the sandbox", func(p *places) *fakeexec.Executor { return p.sandbox }, nil, nil},
		{"on the gateway", func(p *places) *fakeexec.Executor { return p.gateway }, nil, nil},
		{"on the node", func(p *places) *fakeexec.Executor { return p.node }, nil, nil},
		{"another is down", func(p *places) *fakeexec.Executor { return p.sandbox }, func(p *places) []*fakeexec.Executor { return []*fakeexec.Executor{p.gateway, p.node} }, nil},
		// The node could lie about what the others have.
		{"on the node alone that answers", func(p *places) *fakeexec.Executor { return p.node }, func(p *places) []*fakeexec.Executor { return []*fakeexec.Executor{p.sandbox} }, corral.ErrUnavailable},
		{"nowhere", nil, nil, corral.ErrNotFound},
		{"nowhere that answers", nil, func(p *places) []*fakeexec.Executor { return []*fakeexec.Executor{p.sandbox} }, corral.ErrUnavailable},
		{"two do not answer", nil, func(p *places) []*fakeexec.Executor { return []*fakeexec.Executor{p.sandbox, p.node} }, corral.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pl := newPlaces(t)
			if tc.here != nil {
				mustStart(t, tc.here(pl), corral.Command{Shell: "true", ID: "job"})
			}
			if tc.down != nil {
				for _, ex := range tc.down(pl) {
					pl.breaks(ex, fakeexec.OpAttach, down)
				}
			}
			p, err := pl.router(nil).Attach(t.Context(), "job")
			if tc.kind == nil {
				if err != nil || p.Info().ID != "job" {
					t.Fatalf("%v, %v", p, err)
				}
				return
			}
			if !errors.Is(err, tc.kind) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q, want %q in one line", err, tc.kind)
			}
			if tc.kind == corral.ErrUnavailable && corral.Hint(err) != "switch it on" {
				t.Errorf("hint %q", corral.Hint(err))
			}
		})
	}
	if _, err := newPlaces(t).router(nil).Attach(t.Context(), "../x"); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("an ID that is none: %v", err)
	}
	if _, err := corral.NewRouter(corral.RouterOptions{}).Attach(t.Context(), "job"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("a Router without hosts: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPlaces(t).router(nil).Attach(ctx, "job"); !errors.Is(err, context.Canceled) || errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("cancelled: %v", err)
	}
}

// A process is looked for only where its caller knows it to be.
func TestRouterAttachesAtAPlace(t *testing.T) {
	pl := newPlaces(t)
	mustStart(t, pl.node, corral.Command{Shell: "true", ID: "job"})
	pl.breaks(pl.sandbox, fakeexec.OpAttach, corral.Errorf(corral.ErrUnavailable, "", "no engine"))
	for host, want := range map[corral.Host]error{
		corral.HostNode: nil, corral.HostGateway: corral.ErrNotFound, corral.HostSandbox: corral.ErrUnavailable, "moon": corral.ErrNotFound,
	} {
		ctx := located.With(t.Context(), located.Place{Host: string(host)})
		if _, err := pl.router(nil).Attach(ctx, "job"); !errors.Is(err, want) {
			t.Errorf("at %s: %v, want %v", host, err, want)
		}
	}
}

func TestRouterForgetsWhatIsRemoved(t *testing.T) {
	pl := newPlaces(t)
	r := pl.router(nil)
	cmd := corral.Command{Shell: "true", ID: "job"}
	p := mustStart(t, r, cmd)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	// If the Router still remembered it, the start would be refused: the sandbox cannot
	// be asked.
	pl.breaks(pl.sandbox, fakeexec.OpAttach, corral.Errorf(corral.ErrUnavailable, "", "no engine"))
	cmd.Elevated = true
	if p := mustStart(t, r, cmd); p.Info().Host != corral.HostGateway {
		t.Errorf("runs on %s", p.Info().Host)
	}
}

func TestRouterKeepsWhatCannotBeRemoved(t *testing.T) {
	r := newPlaces(t).router(nil)
	p := mustStart(t, r, corral.Command{Shell: "sleep", ID: "job"})
	if err := p.Remove(t.Context()); !errors.Is(err, corral.ErrRunning) {
		t.Errorf("Remove of a running process: %v", err)
	}
	if _, err := r.Attach(t.Context(), "job"); err != nil {
		t.Error(err)
	}
}

type closer struct {
	corral.Executor
	err    error
	closed int
}

func (c *closer) Close() error { c.closed++; return c.err }

func TestRouterClosesAll(t *testing.T) {
	boom := errors.New("boom")
	sandbox, gateway := &closer{err: boom}, &closer{}
	err := corral.NewRouter(corral.RouterOptions{Sandbox: sandbox, Gateway: gateway, Nodes: nodeexec.None{}}).Close()
	if !errors.Is(err, boom) || err.Error() != "cannot close host sandbox: boom" {
		t.Errorf("error %v", err)
	}
	if sandbox.closed != 1 || gateway.closed != 1 {
		t.Errorf("closed %d and %d times", sandbox.closed, gateway.closed)
	}
	if err := corral.NewRouter(corral.RouterOptions{}).Close(); err != nil {
		t.Error(err)
	}
}

func TestRouterAsksTheGuard(t *testing.T) {
	refused := corral.Errorf(corral.ErrApproval, "approve it", "somebody has to approve it")
	var asked []corral.Host
	guard := func(_ context.Context, cmd corral.Command, route corral.Route) (corral.Command, error) {
		asked = append(asked, route.Host)
		if cmd.Decided.Exec != nil {
			t.Errorf("the guard was handed Exec %q of the caller", cmd.Decided.Exec)
		}
		if cmd.Approval == "" {
			return corral.Command{}, refused
		}
		cmd.Decided.Exec = []string{"true"}
		return cmd, nil
	}
	places := newPlaces(t)
	r := places.router(func(o *corral.RouterOptions) { o.Guard = guard })
	start := func(cmd corral.Command) (corral.Process, error) {
		cmd.Decided.Exec = []string{"sleep", "1"} // an attacker's attempt to run something else
		return r.Start(t.Context(), cmd)
	}

	if _, err := start(corral.Command{Shell: "true"}); err != nil || len(asked) > 0 {
		t.Errorf("in the sandbox, of which nobody is asked: %v, asked for %v", err, asked)
	}
	if _, err := start(corral.Command{Shell: "true", Elevated: true}); !errors.Is(err, corral.ErrApproval) {
		t.Errorf("what the guard refuses: %v", err)
	}
	if got := places.starts(); got != [3]int{1, 0, 0} {
		t.Errorf("started %v after a refusal", got)
	}
	if _, err := start(corral.Command{ID: "a", Shell: "true", Elevated: true, Approval: "yes"}); err != nil {
		t.Error(err)
	}
	if _, err := start(corral.Command{Shell: "true", Host: corral.HostNode, Approval: "yes"}); err != nil {
		t.Error(err)
	}
	want := []corral.Host{corral.HostGateway, corral.HostGateway, corral.HostNode}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	if _, err := places.router(nil).Start(t.Context(), corral.Command{Shell: "true", Elevated: true, Ask: "always"}); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("a policy that nobody applies: %v", err)
	}
	// Starting again runs nothing, so the guard is not asked.
	if _, err := start(corral.Command{ID: "a", Shell: "true", Elevated: true}); err != nil || len(asked) != 3 {
		t.Errorf("starting again: %v, asked %d times", err, len(asked))
	}
}
