//go:build e2e

package execdriver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/procfs"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
)

const execUser = "1000:1000"

// execPlace makes exec drivers over containers without a warden.
type execPlace struct {
	engine    *docker.Engine
	workspace string

	mu   sync.Mutex
	made map[corral.Executor]*execBox
	last *execBox
}

// execBox is one sandbox: a container, made anew when it is gone, and a
// directory of logs.
type execBox struct {
	place *execPlace
	dir   string

	mu sync.Mutex
	id string
}

func newExecPlace(t *testing.T) *execPlace {
	engine := enginetest.New(t)
	work := testdir.New(t)
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	exectest.BuildTestProg(t, work)
	return &execPlace{engine: engine, workspace: work, made: map[corral.Executor]*execBox{}}
}

func (b *execBox) container(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id != "" {
		if c, err := b.place.engine.Inspect(ctx, b.id); err == nil && c.Running {
			return b.id, nil
		}
	}
	id, err := b.place.engine.Create(ctx, engine.Spec{
		Name: "corral-exec-" + corral.NewID(), Image: images.Busybox, Labels: map[string]string{"corral": "execdriver-test"},
		Args: []string{"/bin/sh", "-c", "while :; do sleep 3600 & wait $!; done"}, User: execUser, Dir: sandbox.Workdir,
		Mounts: []engine.Mount{{Source: b.place.workspace, Target: sandbox.Workdir}},
		Tmpfs:  []engine.Tmpfs{{Target: "/tmp", Size: 64 << 20, Mode: 0o1777}},
		Memory: 1 << 30, Pids: 4096,
	})
	if err != nil {
		return "", err
	}
	b.id = id
	return id, b.place.engine.Start(ctx, id)
}

func (b *execBox) kill(ctx context.Context, id string) error {
	return b.place.engine.Remove(ctx, id)
}

// orphans counts what the container's init has adopted, beside its own sleep.
func (b *execBox) orphans(t testing.TB) (alive, zombies int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.place.engine.Inspect(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", c.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(list)) {
		s, err := procfs.Read("/proc/" + pid)
		if err != nil {
			continue // reaped in between
		}
		if s.Ended() {
			zombies++
		} else {
			alive++
		}
	}
	return alive, zombies
}

func (b *execBox) remove(t testing.TB) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.place.engine.Remove(context.Background(), b.id); b.id != "" && err != nil {
		t.Error(err)
	}
}

func (b *execBox) enter(ctx context.Context, cmd corral.Command) (string, pathenv.Plan, error) {
	id, err := b.container(ctx)
	if err != nil {
		return "", pathenv.Plan{}, err
	}
	p, err := pathenv.Sandbox(pathenv.SandboxOptions{
		Shell: cmd.Shell, Args: cmd.Args, Call: cmd.Env, PathPrepend: cmd.PathPrepend, Home: sandbox.Workdir, TTY: cmd.TTY != nil,
	})
	if p.Dir = cmd.Dir; !strings.HasPrefix(p.Dir, "/") {
		p.Dir = path.Join(sandbox.Workdir, p.Dir)
	}
	p.Notice, p.Warnings = p.Env.Report()
	return id, p, err
}

func (pl *execPlace) open(t testing.TB, b *execBox) corral.Executor {
	d, err := execdriver.New(execdriver.Options{
		Engine: pl.engine, Enter: b.enter, Kill: b.kill,
		Dir: b.dir, Info: corral.Info{Host: corral.HostSandbox, Sandboxed: true}, User: execUser,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.made[d], pl.last = b, b
	return d
}

func (pl *execPlace) target() exectest.Target {
	return exectest.Target{
		Name: "sandbox exec",
		New: func(t testing.TB) corral.Executor {
			b := &execBox{place: pl, dir: filepath.Join(testdir.New(t), "logs")}
			t.Cleanup(func() { b.remove(t) })
			return pl.open(t, b)
		},
		Reopen: func(t testing.TB, old corral.Executor) corral.Executor {
			if err := old.(*execdriver.Driver).Close(); err != nil {
				t.Fatal(err)
			}
			pl.mu.Lock()
			b := pl.made[old]
			pl.mu.Unlock()
			return pl.open(t, b)
		},
		Workspace: sandbox.Workdir, TestProg: sandbox.Workdir + "/testprog",
		BaseEnv: map[string]string{
			"HOME": sandbox.Workdir, "LANG": "C.UTF-8", "PATH": pathenv.ContainerPath,
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		ShellEnv: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"}, // of the image's profile
		Info:     corral.Info{Host: corral.HostSandbox, Sandboxed: true},
		CountProcs: func(t testing.TB) (alive, zombies int) {
			pl.mu.Lock()
			b := pl.last // the case's own
			pl.mu.Unlock()
			return b.orphans(t)
		},
		Slow: 5,
	}
}

func TestExecDriverConformance(t *testing.T) {
	tg := newExecPlace(t).target()
	tg.Exempt = map[string]string{}
	for _, l := range execLimits {
		for _, name := range exectest.Like(t, l.cases) {
			switch l.kind {
			case unsupported:
				tg.Unsupported = append(tg.Unsupported, name)
			default:
				tg.Exempt[name] = l.reason
			}
		}
	}
	exectest.Run(t, tg)
}

// TestExecDriverAlone runs each case that ends its container in one of its own.
func TestExecDriverAlone(t *testing.T) {
	tg := newExecPlace(t).target()
	tg.Slow = 2 // nothing else runs in the sandbox
	for _, l := range execLimits {
		if l.kind != alone {
			continue
		}
		names := exectest.Like(t, l.cases)
		for _, c := range exectest.Cases() {
			if !slices.Contains(names, c.Name) {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				t.Cleanup(cancel)
				c.Func(&exectest.T{TB: t, Target: tg, X: tg.New(t), Ctx: ctx})
			})
		}
	}
}

func TestExecDriverTimeoutEndsTheSandbox(t *testing.T) {
	x := newExecPlace(t).target().New(t)
	ctx := t.Context()
	other, err := x.Start(ctx, corral.Command{Args: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := x.Start(ctx, corral.Command{Shell: "exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := before.Wait(ctx); err != nil || exit.Code != 3 {
		t.Errorf("a command that ended before: %v, %v", exit, err)
	}
	p, err := x.Start(ctx, corral.Command{Args: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.Reason != corral.ReasonTimeout || exit.Signal != corral.SIGKILL || exit.Code != -1 {
		t.Errorf("the command whose time was up: %v, %v", exit, err)
	}
	if exit, err := other.Wait(ctx); !errors.Is(err, corral.ErrLost) {
		t.Errorf("the other command: %v, %v", exit, err)
	}
	next, err := x.Start(ctx, corral.Command{Shell: "exit 4"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := next.Wait(ctx); err != nil || exit.Code != 4 {
		t.Errorf("a command after that: %v, %v", exit, err)
	}
}

func TestExecDriverContainerKilled(t *testing.T) {
	pl := newExecPlace(t)
	x := pl.target().New(t)
	p, err := x.Start(t.Context(), corral.Command{Shell: "echo begin; sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := p.Log().Read(t.Context(), 0, make([]byte, 10)); err != nil || string(c.Data) != "begin\n" {
		t.Fatalf("%q, %v", c.Data, err)
	}
	pl.last.remove(t)
	if exit, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("%v, %v", exit, err)
	}
	p, err = x.Start(t.Context(), corral.Command{Shell: "exit 5"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 5 {
		t.Errorf("a command after that: %v, %v", exit, err)
	}
	if left := fmt.Sprint(p.Info().Warnings); !strings.Contains(left, "exec API") {
		t.Errorf("no warning of the driver among %s", left)
	}
}
