//go:build e2e

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/moments"
)

// A gateway whose connection to the engine breaks goes on by itself: its
// processes do, and no byte of output or input is lost or repeated.
func TestEngineConnectionBreaks(t *testing.T) {
	const cuts = 40
	pl := newPlace(t, "frames")
	px := newProxy(t)
	pl.Engine = px.address()
	rng := moments.Seeded(t, "CORRAL_CRASH_SEED")
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	x := pl.here(t)
	sessions := []*session{
		printing("plain", 1, 3_000_000, 10_000, 15*time.Millisecond, corral.LogLimit{}),
		printing("ring", 2, 300_000_000, 100_000, 2*time.Millisecond, small),
		onTerminal("terminal", 3, 400_000, 1_000, 10*time.Millisecond),
		both("both", 200, "0.02"),
		echoing("echo"),
	}
	var running []corral.Process
	for _, s := range sessions {
		p := start(ctx, t, x, s.Cmd)
		s.learn(t, event{What: "started", Info: p.Info()})
		running = append(running, p)
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var background sync.WaitGroup
	background.Go(func() {
		echo := sessions[len(sessions)-1]
		p := running[len(sessions)-1]
		for n := 1; writing.Err() == nil; n++ {
			// Not with writing: that might cut a line.
			if _, err := p.Write(ctx, []byte(line(n)+"\n")); err != nil {
				t.Errorf("echo: Write: %v", err)
				return
			}
			echo.written = append(echo.written, n)
		}
		if err := closeStdin(ctx, p); err != nil {
			t.Errorf("echo: CloseStdin: %v", err)
		}
	})
	broken := 0
	var short []*session
	// On a busy machine some cuts meet no connection.
	for k := 0; k < cuts || broken < cuts/2 && k < 5*cuts; k++ {
		time.Sleep(moments.Between(rng, 0, 150*time.Millisecond))
		s := newSession(fmt.Sprintf("short-%d", k), "echo %d; exit %d", k, k)
		s.code = k
		s.check = func(t *testing.T, s *session, output string) {
			if want := fmt.Sprintln(k); output != want {
				t.Errorf("%s: %q", s.Cmd.ID, output)
			}
		}
		short = append(short, s)
		background.Go(func() {
			p, err := insist(ctx, x, s.Cmd)
			if err != nil {
				t.Errorf("%s: %v", s.Cmd.ID, err)
				return
			}
			s.finish(ctx, t, p)
		})
		time.Sleep(moments.Between(rng, 0, 10*time.Millisecond))
		down := k%8 == 7
		broken += px.cut(down)
		if down {
			time.Sleep(200 * time.Millisecond)
			px.cut(false)
		}
	}
	if broken < cuts/2 {
		t.Errorf("%d connections broke: that tests nothing", broken)
	}
	stop()
	background.Wait()
	bytes := int64(0)
	for i, s := range sessions {
		bytes += s.finish(ctx, t, running[i])
	}
	for _, s := range append(sessions, short...) {
		ran, err := os.ReadFile(filepath.Join(pl.Work, "runs", s.Cmd.ID))
		if string(ran) != "ran\n" || err != nil {
			t.Errorf("%s ran other than once: %q, %v", s.Cmd.ID, ran, err)
		}
	}
	t.Logf("%d cuts, %d connections broken, %d bytes", len(short), broken, bytes)
}

// insist starts a command as a caller does that knows the contract.
func insist(ctx context.Context, x corral.Executor, cmd corral.Command) (corral.Process, error) {
	for {
		p, err := x.Start(ctx, cmd)
		for errors.Is(err, corral.ErrLost) { // Attach tells, once it can
			time.Sleep(10 * time.Millisecond)
			if p, err = x.Attach(ctx, cmd.ID); errors.Is(err, corral.ErrUnavailable) {
				err = corral.ErrLost
			}
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrNotFound) {
			return p, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// closeStdin is insist for CloseStdin.
func closeStdin(ctx context.Context, p corral.Process) error {
	for {
		err := p.CloseStdin(ctx)
		if !errors.Is(err, corral.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
