//go:build e2e

package sandbox_test

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/enginetest"
	"github.com/corral-exec/corral/internal/exectest"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// place makes sandboxes, each over a state directory of its own.
type place struct {
	cfg    sandbox.Config
	router bool
	// engine connects to the engine; nil: to Docker's.
	engine func(testing.TB) engine

	mu     sync.Mutex
	states map[corral.Executor]string
}

// An engine has images, too.
type engine interface {
	sandbox.Engine
	Images() images.Engine
}

func opened(t testing.TB, e engine, err error) engine {
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (pl *place) open(t testing.TB, state string) corral.Executor {
	engine := pl.engine(t)
	cfg := pl.cfg
	cfg.StateDir, cfg.Engine = state, engine
	e, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	var x corral.Executor = e
	if pl.router {
		x = corral.NewRouter(corral.RouterOptions{Sandbox: e, SandboxOn: true, Nodes: nodeexec.None{}})
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.states[x] = state
	return x
}

func (pl *place) reopen(t testing.TB, old corral.Executor) corral.Executor {
	if err := old.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	pl.mu.Lock()
	state := pl.states[old]
	pl.mu.Unlock()
	return pl.open(t, state)
}

func run(t *testing.T, name string, pl *place, change func(*exectest.Target)) {
	if pl.engine == nil {
		pl.engine = func(t testing.TB) engine {
			engine, err := docker.New(docker.Options{})
			return opened(t, engine, err)
		}
		enginetest.New(t)
	}
	pl.states = map[corral.Executor]string{}
	work := testdir.New(t)
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	exectest.BuildTestProg(t, work)
	pl.cfg.Image = images.Busybox
	pl.cfg.WardenPath = wardenbintest.Build(t)
	pl.cfg.Workspace, pl.cfg.WorkspaceAccess = work, sandbox.AccessReadWrite
	pl.cfg.Pids, pl.cfg.Memory = 4096, 512<<20
	const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	tg := exectest.Target{
		Name: name,
		New: func(t testing.TB) corral.Executor {
			return pl.open(t, filepath.Join(testdir.New(t), "state"))
		},
		Reopen:    pl.reopen,
		Workspace: sandbox.Workdir, TestProg: sandbox.Workdir + "/testprog",
		BaseEnv: map[string]string{
			"HOME": sandbox.Workdir, "LANG": "C.UTF-8", "PATH": path,
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		// What the image's /etc/profile sets.
		ShellEnv:  map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"},
		IgnoreEnv: []string{"CORRAL_PROCESS"},
		Exempt:    map[string]string{"path/prepend-first": "Debian's busybox runs its own applets without looking at PATH"},
		Info:      corral.Info{Host: corral.HostSandbox, Sandboxed: true},
		Memory:    pl.cfg.Memory,
		Slow:      2,
	}
	if change != nil {
		change(&tg)
	}
	exectest.Run(t, tg)
}

func TestConformanceFDs(t *testing.T) {
	run(t, "sandbox fds", &place{cfg: sandbox.Config{Driver: sandbox.DriverFDs}}, nil)
}

func TestConformanceFrames(t *testing.T) {
	run(t, "sandbox frames", &place{cfg: sandbox.Config{Driver: sandbox.DriverFrames}}, nil)
}

func TestConformanceGVisor(t *testing.T) {
	run(t, "sandbox gvisor", &place{cfg: sandbox.Config{Runtime: "runsc"}}, func(tg *exectest.Target) {
		tg.Slow = 5
		tg.Memory = 0 // a sandbox that takes all of it dies as a whole
		maps.Copy(tg.Exempt, gvisorLacks)
	})
}

// What gVisor lacks, as of the release in Debian 12.
var gvisorLacks = map[string]string{
	"timeout/daemon-detached": "gVisor's /proc does not show limits, the only sign that such a daemon cannot lose",

	"tty/isatty":        "gVisor's /dev/tty is not the controlling terminal of a session",
	"tty/resize":        "gVisor sends no SIGWINCH",
	"reopen/tty":        "gVisor sends no SIGWINCH",
	"tty/interrupt":     "gVisor's terminals do not turn Ctrl-C into SIGINT",
	"tty/interrupt-job": "gVisor's terminals do not turn Ctrl-C into SIGINT",
	"tty/eof":           "gVisor's terminals do not wake a reader at end-of-file",
}

func TestConformanceRouterFDs(t *testing.T) {
	run(t, "router, sandbox fds", &place{cfg: sandbox.Config{Driver: sandbox.DriverFDs}, router: true}, nil)
}

func TestConformanceRouterFrames(t *testing.T) {
	run(t, "router, sandbox frames", &place{cfg: sandbox.Config{Driver: sandbox.DriverFrames}, router: true}, nil)
}

func TestConformanceRouterGVisor(t *testing.T) {
	run(t, "router, sandbox gvisor", &place{cfg: sandbox.Config{Runtime: "runsc"}, router: true}, func(tg *exectest.Target) {
		tg.Slow = 5
		tg.Memory = 0 // a sandbox that takes all of it dies as a whole
		maps.Copy(tg.Exempt, gvisorLacks)
	})
}
