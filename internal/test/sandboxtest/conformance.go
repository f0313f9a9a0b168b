// Package sandboxtest runs the conformance suite on sandboxes. It is for tests
// alone: those of e2e/sandbox, each a package of its own so that they
// run side by side.
package sandboxtest

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A Place is where the suite is run: sandboxes, each over a state directory of
// its own.
type Place struct {
	Name   string         // of the suite's target
	Config sandbox.Config // what sandboxes are like: their driver, or their runtime
	Router bool           // they are behind a Router
	// Engine connects to the engine, which has the image images.Busybox; nil: to
	// Docker's.
	Engine func() (engine.Engine, error)
	// OwnAccounts: the engine itself writes a container's user into /etc/passwd, with the
	// working directory as the home directory.
	OwnAccounts bool

	mu     sync.Mutex
	states map[corral.Executor]string
}

func (pl *Place) open(t testing.TB, state string) corral.Executor {
	engine, err := pl.Engine()
	if err != nil {
		t.Fatal(err)
	}
	cfg := pl.Config
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
	if pl.Router {
		x = corral.NewRouter(corral.RouterOptions{Sandbox: e, SandboxOn: true, Nodes: nodeexec.None{}})
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.states[x] = state
	return x
}

func (pl *Place) reopen(t testing.TB, old corral.Executor) corral.Executor {
	if err := old.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	pl.mu.Lock()
	state := pl.states[old]
	pl.mu.Unlock()
	return pl.open(t, state)
}

// prepare completes the place.
func (pl *Place) prepare(t *testing.T) {
	if pl.Engine == nil {
		pl.Engine = func() (engine.Engine, error) { return docker.New(docker.Options{}) }
		enginetest.New(t)
	}
	pl.states = map[corral.Executor]string{}
	pl.Config.WardenPath = wardenbintest.Build(t)
}

// Run runs the suite, and what all sandboxes have beside it.
func (pl *Place) Run(t *testing.T) {
	t.Run("image", pl.RunImage)
	pl.prepare(t)
	work := testdir.New(t)
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	exectest.BuildTestProg(t, work)
	pl.Config.Image = images.Busybox
	pl.Config.Workspace.Dir, pl.Config.Workspace.Access = work, sandbox.AccessReadWrite
	pl.Config.Resources.Pids, pl.Config.Resources.Memory, pl.Config.Resources.Shm = 4096, 512<<20, 96<<20
	t.Run("names", pl.runNames)
	t.Run("account", pl.runAccount)
	t.Run("shm", pl.runShm)
	const path = "/usr/local/bin:/usr/bin:/bin" // of the image
	tg := exectest.Target{
		Name: pl.Name,
		New: func(t testing.TB) corral.Executor {
			x := pl.open(t, filepath.Join(testdir.New(t), "state"))
			if pl.Config.Environment.Snapshot {
				WaitForSnapshot(t, x)
			}
			return x
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
		Memory:    pl.Config.Resources.Memory,
		Slow:      2,
	}
	if pl.Config.Runtime == GVisor || pl.Config.Runtime == GVisorUDS {
		tg.Slow = 5
		tg.Memory = 0 // a sandbox that takes all of it dies as a whole
		maps.Copy(tg.Exempt, gvisorLacks)
	}
	exectest.Run(t, tg)
}

// GVisor is the runtime with known gaps. With GVisorUDS a sandbox can dial the socket
// that its warden is spoken to by.
const (
	GVisor    = "runsc"
	GVisorUDS = "runsc-uds"
)

// What gVisor lacks, as of the release in Debian 12.
var gvisorLacks = map[string]string{
	"timeout/daemon-detached": "gVisor's /proc does not show limits, the only sign that such a daemon cannot lose",

	"tty/isatty":        "gVisor's /dev/tty is not the controlling terminal of a session",
	"tty/resize":        "gVisor sends no SIGWINCH",
	"reopen/tty":        "gVisor sends no SIGWINCH",
	"tty/erase":         "gVisor's terminals know no characters of several bytes, and do not wake a reader at end-of-file",
	"tty/interrupt":     "gVisor's terminals do not turn Ctrl-C into SIGINT",
	"tty/interrupt-job": "gVisor's terminals do not turn Ctrl-C into SIGINT",
	"tty/eof":           "gVisor's terminals do not wake a reader at end-of-file",
	"tty/eof-late":      "gVisor's terminals do not wake a reader at end-of-file",
	"tty/eof-shell":     "gVisor's terminals do not wake a reader at end-of-file",
}
