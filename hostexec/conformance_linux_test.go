package hostexec_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/pathenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host makes executors, each over a state directory of its own.
type host struct {
	cfg    hostexec.Config
	router bool
	mu     sync.Mutex
	states map[corral.Executor]string
}

func (h *host) open(t testing.TB, state string) corral.Executor {
	cfg := h.cfg
	cfg.StateDir = state
	e, err := hostexec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var x corral.Executor = e
	if h.router {
		x = corral.NewRouter(corral.RouterOptions{Gateway: e, Nodes: nodeexec.None{}, Host: corral.HostGateway})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.states[x] = state
	return x
}

// reopen closes an executor and begins another life over the same state.
func (h *host) reopen(t testing.TB, old corral.Executor) corral.Executor {
	if err := old.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	state := h.states[old]
	h.mu.Unlock()
	return h.open(t, state)
}

// profilePath is what a login shell has for PATH.
func profilePath(t *testing.T, environ []string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-lc", `printf %s "$PATH"`)
	cmd.Env = environ
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func run(t *testing.T, name string, h *host) {
	dir, bin := testdir.New(t), testdir.New(t)
	h.states = map[corral.Executor]string{}
	h.cfg.Workspace = dir
	h.cfg.Environ = exectest.HostEnviron(dir)
	tg := exectest.HostTarget(t, dir, bin)
	tg.Name = name
	tg.New = func(t testing.TB) corral.Executor {
		return h.open(t, filepath.Join(testdir.New(t), "state"))
	}
	if !h.cfg.InProcess {
		tg.Reopen = h.reopen
	}
	if h.cfg.Node != "" {
		const why = "pathPrepend applies on a node only where the call sets env.PATH"
		tg.Exempt = map[string]string{"path/prepend": why, "path/prepend-first": why, "path/prepend-literal": why}
		tg.RefusesEnvPath = nil // the suite's only adds to it
		tg.ShellEnv = map[string]string{"PATH": tg.BaseEnv["PATH"] + ":" + profilePath(t, h.cfg.Environ)}
	}
	exectest.Run(t, tg)
}

func TestConformanceInProcess(t *testing.T) {
	run(t, "hostexec in-process", &host{cfg: hostexec.Config{InProcess: true}})
}

func TestConformanceWarden(t *testing.T) {
	run(t, "hostexec warden", &host{cfg: hostexec.Config{WardenPath: wardenbintest.Build(t)}})
}

func TestConformanceInProcessRouter(t *testing.T) {
	run(t, "router, hostexec in-process", &host{cfg: hostexec.Config{InProcess: true}, router: true})
}

func TestConformanceWardenRouter(t *testing.T) {
	run(t, "router, hostexec warden", &host{cfg: hostexec.Config{WardenPath: wardenbintest.Build(t)}, router: true})
}

// A node has another environment, and login shells.
func TestConformanceNode(t *testing.T) {
	run(t, "hostexec of a node", &host{cfg: hostexec.Config{InProcess: true, Node: pathenv.NodeHeadless}})
}
