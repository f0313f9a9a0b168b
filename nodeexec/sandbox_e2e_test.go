//go:build e2e && linux

package nodeexec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/policy/guard"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A boxed node has a sandbox of its own beside the machine, behind a policy that
// allows nothing.
type boxed struct {
	corral.Executor
	rig     *rig
	state   string
	host    hostexec.Config
	sandbox sandbox.Config

	closing func()
}

var _ guard.Places = (*places)(nil)

// places are the machine and one sandbox.
type places struct {
	router *corral.Router
}

func (p places) Place(_ string, cmd corral.Command) (*corral.Router, corral.Route, error) {
	route, err := p.router.Route(corral.Command{Elevated: cmd.Elevated})
	return p.router, route, err
}

func (places) Start(context.Context, corral.Command) (corral.Process, error) {
	return nil, errors.ErrUnsupported
}

func (p places) Attach(ctx context.Context, id string) (corral.Process, error) {
	return p.router.Attach(ctx, id)
}

// begin begins a life of the node's program.
func (b *boxed) begin(t testing.TB) {
	engine, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := b.sandbox
	cfg.StateDir, cfg.Engine = b.state, engine
	box, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	host := b.rig.host(b.host)
	behind := newPolicy(t, guard.Config{Plan: host.Plan, Log: b.rig.log}, b.state, `{tools: {exec: {security: "deny"}}}`, func(g *guarded) {
		g.Node = guard.NewNode(places{corral.NewRouter(corral.RouterOptions{Gateway: host, Sandbox: box, SandboxOn: true, Guard: guard.Decided})}, g.guard)
	})
	b.rig.serve(behind.Node)
	b.Executor = b.rig.node()
	stop := b.rig.stop
	b.closing = sync.OnceFunc(func() {
		stop()
		behind.close()
		if err := errors.Join(box.Close(), host.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { b.rig.end(); b.closing() })
}

func (b *boxed) Close() error { b.closing(); return nil }

// Whatever is true of processes is true of those in a sandbox on a node. The next
// life is one of the node's program: the container stays, with all that is in it.
func TestConformanceSandbox(t *testing.T) {
	enginetest.New(t)
	work := testdir.New(t)
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	exectest.BuildTestProg(t, work)
	warden := wardenbintest.Build(t)
	const path = "/usr/local/bin:/usr/bin:/bin" // of the image
	exectest.Run(t, exectest.Target{
		Name: "node with a sandbox",
		New: func(t testing.TB) corral.Executor {
			dir := testdir.New(t)
			b := &boxed{
				rig: newRig(t), state: filepath.Join(dir, "state"),
				host: hostexec.Config{StateDir: filepath.Join(dir, "host"), WardenPath: warden, Workspace: work, Environ: exectest.HostEnviron(work)},
				sandbox: sandbox.Config{
					Image: images.Busybox, WardenPath: warden, Workspace: sandbox.Workspace{Dir: work, Access: sandbox.AccessReadWrite}, Resources: sandbox.Resources{Pids: 4096},
				},
			}
			b.rig.open()
			b.begin(t)
			return b
		},
		Reopen: func(t testing.TB, old corral.Executor) corral.Executor {
			b := old.(*boxed)
			b.closing()
			next := &boxed{rig: b.rig, state: b.state, host: b.host, sandbox: b.sandbox}
			next.begin(t)
			return next
		},
		Workspace: sandbox.Workdir, TestProg: sandbox.Workdir + "/testprog",
		BaseEnv: map[string]string{
			"HOME": sandbox.Workdir, "LANG": "C.UTF-8", "PATH": path,
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		// What the image's /etc/profile sets.
		ShellEnv:  map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"},
		IgnoreEnv: []string{"CORRAL_PROCESS"},
		Exempt:    map[string]string{"path/prepend-first": "Debian's busybox runs its own applets without looking at PATH"},
		Info:      corral.Info{Host: corral.HostNode, Node: "builder", Sandboxed: true},
		Slow:      3,
	})
}
