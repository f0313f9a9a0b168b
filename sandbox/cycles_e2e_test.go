//go:build e2e

package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/internal/test/traces"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// scriptVar makes this test binary a program that uses a sandbox until it is
// killed.
const scriptVar = "CORRAL_SANDBOX_SCRIPT"

func TestMain(m *testing.M) {
	script := os.Getenv(scriptVar)
	if script == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(script); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A script is what such a program does: it starts a command in each of the
// containers, one after the other.
type script struct {
	State, Warden string
	Name          string
	Pids          []int64 // of the containers
	Pool          int     // how many containers wait; 0: there is no pool
	Size          int64   // of the private workspace; 0: not limited
	Ephemeral     bool
	Runtime       string
	Wait          bool   // for the ends of the commands
	Die           string // a step at which it kills itself; empty: it is killed
	Setup         string // the setup command
}

func play(text string) error {
	var s script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	die := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	}
	sandbox.SetReached(func(step string) {
		if step == s.Die {
			die()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	engine, err := docker.New(docker.Options{})
	if err != nil {
		return err
	}
	cfg := sandbox.Config{
		Engine: engine, StateDir: s.State, Name: s.Name, Image: images.Busybox, WardenPath: s.Warden, SetupCommand: s.Setup,
		Workspace: sandbox.Workspace{Size: s.Size}, Ephemeral: s.Ephemeral, Runtime: s.Runtime,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if s.Pool > 0 {
		cfg.Resources.Pids = s.Pids[0]
		if cfg.Pool, err = sandbox.NewPool(cfg, s.Pool); err != nil {
			return err
		}
		for ; cfg.Pool.Ready() == 0 && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		}
	}
	var e *sandbox.Executor
	for _, pids := range s.Pids {
		cfg.Resources.Pids = pids
		if e == nil {
			e, err = sandbox.New(cfg)
		} else {
			err = e.Configure(cfg)
		}
		if err != nil {
			return err
		}
		p, err := e.Start(ctx, corral.Command{Shell: "echo $$ >>used; exec sleep 0.2"})
		if err != nil {
			return err
		}
		if s.Wait {
			if _, err := p.Wait(ctx); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return errors.New("was not killed")
}

// perform runs a script, until it dies or for some time.
func (b *bench) perform(s script, atMost time.Duration) {
	b.t.Helper()
	s.State, s.Warden = b.cfg.StateDir, b.cfg.WardenPath
	text, err := json.Marshal(s)
	if err != nil {
		b.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), scriptVar+"="+string(text))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	kill := time.AfterFunc(atMost, func() { _ = cmd.Process.Kill() }) // or it is dead
	err = cmd.Wait()
	early := kill.Stop()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || s.Die != "" && !early {
		b.t.Fatalf("%+v: %v\n%s", s, err, said.String())
	}
}

// nothing demands that of its sandboxes nothing but records is left.
func (b *bench) nothing(names ...string) {
	b.t.Helper()
	for _, name := range names {
		e, err := sandbox.New(b.like(func(c *sandbox.Config) { c.Name = name }))
		if err != nil {
			b.t.Fatal(err)
		}
		if err := errors.Join(e.Remove(b.t.Context()), e.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
	b.sweepTo(0)
	for _, dir := range []string{"boxes", "workspaces"} {
		left, err := os.ReadDir(filepath.Join(b.cfg.StateDir, dir))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, f := range left {
			if f.Name() != ".lock" {
				b.t.Errorf("left: %s/%s", dir, f.Name())
			}
		}
	}
	if left := b.containers(); len(left) > 0 {
		b.t.Errorf("left: %v", left)
	}
}

// sweepTo sweeps until there are that many containers: the engine may have been
// asked for one by a program that was killed, and make it after a sweep.
func (b *bench) sweepTo(n int) {
	b.t.Helper()
	time.Sleep(500 * time.Millisecond)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := sandbox.Sweep(b.t.Context(), b.engine, b.cfg.StateDir); err != nil {
			b.t.Fatal(err)
		}
		if len(b.containers()) == n {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%d containers are left, want %d: %v", len(b.containers()), n, b.containers())
		}
	}
}

// Killed at any step, a program leaves what a sweep finds, and what the next
// life of it goes on with.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range sandbox.Steps {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			b := newBench(t)
			tr := traces.New(t, b.dir)
			b.perform(script{Name: "default", Pids: []int64{100, 101}, Wait: true, Die: step}, time.Minute)
			if len(b.boxes()) == 0 {
				t.Error("nothing was left: this tests nothing")
			}
			tr.Look(t)
			if _, err := sandbox.Sweep(t.Context(), b.engine, b.cfg.StateDir); err != nil {
				t.Fatal(err)
			}
			kept := map[string]int{"referenced": 1, "container removed": 1}[step]
			if n := len(b.boxes()); n != kept {
				t.Errorf("%d boxes after the sweep, want %d", n, kept)
			}
			// Once more, and now the next life meets it unswept.
			b.perform(script{Name: "default", Pids: []int64{102, 103}, Wait: true, Die: step}, time.Minute)
			e := b.open(limit(104))
			ended(t, begin(t, e, "", "test -d . && echo >x"), 0)
			b.sweepTo(1)
			b.awaitBoxes(1)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			b.nothing("default")
			if err := os.RemoveAll(b.cfg.StateDir); err != nil {
				t.Fatal(err)
			}
			tr.Gone(t)
		})
	}
}

// cycles is how often sandboxes are used and killed: CORRAL_CYCLES, or a few.
func cycles(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("CORRAL_CYCLES"))
	switch {
	case os.Getenv("CORRAL_CYCLES") == "":
		return 20
	case err != nil || n < 1:
		t.Fatalf("CORRAL_CYCLES is no number: %v", err)
	}
	return n
}

// Programs that use a few sandboxes are killed at any moment, again and again.
func TestCycles(t *testing.T) {
	b := newBench(t)
	tr := traces.New(t, b.dir)
	rng := moments.Seeded(t, "CORRAL_CYCLES_SEED")
	names := []string{"one", "two", "two-three"}
	n := cycles(t)
	most := 0
	for k := range n {
		s := script{Name: names[rng.IntN(len(names))], Pool: rng.IntN(2), Wait: rng.IntN(2) == 0, Size: 16 << 20}
		for range 1 + rng.IntN(3) {
			s.Pids = append(s.Pids, 100+rng.Int64N(3))
		}
		b.perform(s, moments.Between(rng, 0, 1500*time.Millisecond))
		if k%10 == 0 {
			most = max(most, tr.Look(t)["container"])
			if _, err := sandbox.Sweep(t.Context(), b.engine, b.cfg.StateDir); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d cycles, up to %d containers", n, most)
	tr.Look(t)
	b.nothing(names...)
	if err := os.RemoveAll(b.cfg.StateDir); err != nil {
		t.Fatal(err)
	}
	tr.Gone(t)
}
