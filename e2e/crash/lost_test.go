//go:build e2e

package crash_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A blow ends a place with everything that runs in it, from outside.
type blow func(t *testing.T, pl place)

// killContainer is docker kill. The stop signal and PID 1's deafness to signals
// from inside play no part in it.
func killContainer(t *testing.T, pl place) {
	t.Helper()
	engine := engineOf(t, pl)
	for _, c := range containersOf(t, engine, pl.State) {
		if err := unix.Kill(c.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			now, err := engine.Inspect(context.Background(), c.ID)
			if err != nil || !now.Running {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the container runs on")
			}
		}
	}
}

func removeContainer(t *testing.T, pl place) {
	t.Helper()
	engine := engineOf(t, pl)
	for _, c := range containersOf(t, engine, pl.State) {
		if err := engine.Remove(context.Background(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// engineOf connects to the place's engine until t ends.
func engineOf(t *testing.T, pl place) engine.Engine {
	t.Helper()
	engine, err := pl.engine()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

func containersOf(t *testing.T, engine engine.Engine, state string) []engine.Container {
	t.Helper()
	list, err := sandbox.List(context.Background(), engine, state)
	if err != nil || len(list) == 0 {
		t.Fatalf("no container: %v, %v", list, err)
	}
	for i, c := range list {
		if list[i], err = engine.Inspect(context.Background(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func killWarden(t *testing.T, pl place) {
	t.Helper()
	pid, err := wardenexec.WardenPID(pl.wardenDir())
	if err != nil || pid <= 0 {
		t.Fatalf("no warden: %d, %v", pid, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); pid != 0; time.Sleep(time.Millisecond) {
		if pid, err = wardenexec.WardenPID(pl.wardenDir()); err != nil || time.Now().After(end) {
			t.Fatalf("the warden %d lives: %v", pid, err)
		}
	}
}

var blows = []struct {
	name, kind string
	strike     blow
}{
	{"host warden killed", "host", killWarden},
	{"container killed, fds", "fds", killContainer},
	{"container removed, fds", "fds", removeContainer},
	{"container killed, frames", "frames", killContainer},
	{"container removed, frames", "frames", removeContainer},
	{"container killed, gvisor", "gvisor", killContainer},
	{"container killed, gvisor, fds", "gvisor-uds", killContainer},
	{"container killed, containerd", "containerd-frames", killContainer},
	{"container removed, containerd", "containerd-fds", removeContainer},
	{"container killed, containerd, gvisor", "containerd-gvisor", killContainer},
}

// What was lost says so: to who waits, to who attaches now and in a later life.
// What had ended keeps its exit. The next command runs.
func TestPlaceDiesWhileGatewayLives(t *testing.T) {
	for _, b := range blows {
		t.Run(b.name, func(t *testing.T) {
			pl := newPlace(t, b.kind)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			first := pl.here(t)
			ended := start(ctx, t, first, corral.Command{ID: "ended", Shell: "echo e; exit 3"})
			if exit, err := ended.Wait(ctx); err != nil || exit.Code != 3 {
				t.Fatalf("%v, %v", exit, err)
			}
			running := start(ctx, t, first, corral.Command{ID: "running", Shell: "echo r; sleep 40"})
			await(ctx, t, running, "r\n")
			failed := make(chan error, 1)
			go func() {
				_, err := running.Wait(ctx)
				failed <- err
			}()
			b.strike(t, pl)
			endWhatRunsOn(ctx, t, pl, first)
			struck := time.Now()
			if err := <-failed; !errors.Is(err, corral.ErrLost) || corral.Hint(err) == "" {
				t.Errorf("Wait: %v, want ErrLost", err)
			}
			if took := time.Since(struck); took > 5*time.Second*time.Duration(pl.slow()) {
				t.Errorf("that took %v", took)
			}
			if _, err := running.Write(ctx, []byte("x")); !errors.Is(err, corral.ErrEnded) && !errors.Is(err, corral.ErrStdinClosed) {
				t.Errorf("Write: %v", err)
			}
			aftermath(ctx, t, first)
			if err := first.(io.Closer).Close(); err != nil {
				t.Error(err)
			}
			second := pl.here(t)
			aftermath(ctx, t, second)
			again(ctx, t, second)
		})
	}
}

// The same when the place dies while no gateway lives: how its commands ended is not known,
// and Corral may not claim to know.
func TestPlaceDiesWhileNobodyLives(t *testing.T) {
	for _, b := range blows {
		t.Run(b.name, func(t *testing.T) {
			pl := newPlace(t, b.kind)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			unseen := newSession("unseen", "sleep 0.5; exit 0")
			running := newSession("running", "echo r; sleep 40")
			ended := newSession("ended", "echo e; exit 3")
			l := begin(t, script{Place: pl, Tasks: []task{ended.task, running.task}})
			l.await()
			for end := time.Now().Add(20 * time.Second); !l.told("ended", "ended"); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the command does not end")
				}
			}
			time.Sleep(200 * time.Millisecond) // now that is on disk
			for _, e := range l.kill() {
				if e.What == "failed" {
					t.Errorf("%+v", e)
				}
			}
			// It ends while no gateway lives.
			l = begin(t, script{Place: pl, Tasks: []task{unseen.task}})
			l.await()
			l.kill()
			time.Sleep(time.Second)
			b.strike(t, pl)
			x := pl.here(t)
			endWhatRunsOn(ctx, t, pl, x)
			aftermath(ctx, t, x)
			lost(ctx, t, x, "unseen", "")
			again(ctx, t, x)
		})
	}
}

// endWhatRunsOn ends the command that a killed warden leaves behind on a host: the
// next warden has it, and passes signals on. In a container it dies with the warden.
func endWhatRunsOn(ctx context.Context, t *testing.T, pl place, x corral.Executor) {
	t.Helper()
	if pl.Kind != "host" {
		return
	}
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var p corral.Process
		if p, err = x.Attach(ctx, "running"); err == nil {
			err = p.Signal(ctx, corral.SIGKILL)
		}
		if err == nil {
			return
		}
	}
	t.Errorf("the command of the killed warden takes no signal: %v", err)
}

// aftermath looks at what was in the place when it died.
func aftermath(ctx context.Context, t *testing.T, x corral.Executor) {
	t.Helper()
	lost(ctx, t, x, "running", "r\n")
	p, err := x.Attach(ctx, "ended")
	if err != nil {
		t.Fatalf("Attach to what had ended: %v", err)
	}
	if exit, err := p.Wait(ctx); err != nil || exit.Code != 3 {
		t.Errorf("Wait for what had ended: %v, %v", exit, err)
	}
	if out, err := all(ctx, p.Log(), true); err != nil || out != "e\n" {
		t.Errorf("output of what had ended: %q, %v", out, err)
	}
}

func lost(ctx context.Context, t *testing.T, x corral.Executor, id, output string) {
	t.Helper()
	p, err := x.Attach(ctx, id)
	if err != nil {
		t.Fatalf("Attach to %s: %v", id, err)
	}
	if exit, err := p.Wait(ctx); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Wait for %s: %v, %v, want ErrLost", id, exit, err)
	}
	if out, err := all(ctx, p.Log(), true); err != nil || !strings.HasPrefix(out, output) {
		t.Errorf("output of %s: %q, %v", id, out, err)
	}
	if err := p.Signal(ctx, corral.SIGTERM); !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Signal to %s: %v, want ErrEnded", id, err)
	}
}

// again runs a command in what takes the place of what died.
func again(ctx context.Context, t *testing.T, x corral.Executor) {
	t.Helper()
	p := start(ctx, t, x, corral.Command{Shell: "echo again; exit 5"})
	if exit, err := p.Wait(ctx); err != nil || exit.Code != 5 {
		t.Errorf("the next command: %v, %v", exit, err)
	}
	if out, err := all(ctx, p.Log(), true); err != nil || out != "again\n" {
		t.Errorf("output of the next command: %q, %v", out, err)
	}
}

func start(ctx context.Context, t *testing.T, x corral.Executor, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := x.Start(ctx, cmd)
	if err != nil {
		t.Fatalf("Start(%s): %v", cmd.Shell, err)
	}
	return p
}

// await waits until the output begins with text.
func await(ctx context.Context, t *testing.T, p corral.Process, text string) {
	t.Helper()
	got := ""
	buf := make([]byte, 1000)
	for !strings.HasPrefix(got, text) {
		c, err := p.Log().Read(ctx, int64(len(got)), buf)
		if err != nil {
			t.Fatalf("%q so far: %v", got, err)
		}
		got += string(c.Data)
	}
}
