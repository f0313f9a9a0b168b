//go:build e2e

package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/moments"
)

func TestKillGatewayHost(t *testing.T)   { killGateways(t, "host", 25) }
func TestKillGatewayFDs(t *testing.T)    { killGateways(t, "fds", 25) }
func TestKillGatewayFrames(t *testing.T) { killGateways(t, "frames", 25) }
func TestKillGatewayGVisor(t *testing.T) { killGateways(t, "gvisor", 8) }

func TestKillGatewayGVisorFDs(t *testing.T) { killGateways(t, "gvisor-uds", 8) }

func TestKillGatewayContainerdFDs(t *testing.T)    { killGateways(t, "containerd-fds", 12) }
func TestKillGatewayContainerdFrames(t *testing.T) { killGateways(t, "containerd-frames", 12) }
func TestKillGatewayContainerdGVisor(t *testing.T) { killGateways(t, "containerd-gvisor", 6) }

// A campaign kills gateways over one place, one after the other.
type campaign struct {
	pl       place
	rng      *rand.Rand
	sessions []*session
	byID     map[string]*session
}

func (c *campaign) add(list ...*session) {
	for _, s := range list {
		c.sessions = append(c.sessions, s)
		c.byID[s.Cmd.ID] = s
	}
}

// small makes rings turn soon.
var small = corral.LogLimit{Head: 50_000, Tail: 120_000}

func killGateways(t *testing.T, kind string, kills int) {
	pl := newPlace(t, kind)
	c := &campaign{pl: pl, rng: moments.Seeded(t, "CORRAL_CRASH_SEED"), byID: map[string]*session{}}
	slow := pl.slow()
	long := []*session{
		printing("plain", 1, 3_000_000/slow, 10_000, 15*time.Millisecond, corral.LogLimit{}),
		printing("ring", 2, 100_000_000/slow, 100_000, 2*time.Millisecond, small),
		onTerminal("terminal", 3, 400_000/slow, 1_000, 10*time.Millisecond),
		both("both", 300/slow, "0.02"),
		echoing("echo"),
	}
	silent := newSession("silent", "sleep %d; exit 15", 3)
	silent.code = 15
	limited := newSession("limited", "sleep 50")
	limited.Cmd.Timeout, limited.code = 2*time.Second, -1
	waiting := newSession("waiting", "until [ -e gate ]; do sleep 0.05; done; echo passed; exit 16")
	waiting.code = 16
	waiting.check = func(t *testing.T, s *session, output string) {
		if output != "passed\n" {
			t.Errorf("%s: %q", s.Cmd.ID, output)
		}
	}
	c.add(long...)
	c.add(silent, limited, waiting)

	c.oneLife(t, 0, true)
	// No gateway lives now: a deadline passes, and a command ends.
	if err := os.WriteFile(filepath.Join(pl.Work, "gate"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(max(0, time.Until(limited.info.StartedAt.Add(limited.Cmd.Timeout))) + time.Duration(pl.slow())*time.Second)
	next := time.Now()

	for k := 1; k < kills; k++ {
		c.oneLife(t, k, false)
	}
	bytes := c.end(t)

	if exit := limited.exit; exit == nil || exit.Reason != corral.ReasonTimeout || exit.EndedAt.After(next) {
		t.Errorf("the time-out while nobody lived: %+v", exit)
	}
	if exit := waiting.exit; exit == nil || exit.EndedAt.After(next) {
		t.Errorf("the end while nobody lived: %+v", exit)
	}
	for _, s := range long {
		if s.lives < kills/5 {
			t.Errorf("%s saw %d lives only: it tests nothing", s.Cmd.ID, s.lives)
		}
	}
	t.Logf("%s: %d kills, %d sessions, %d bytes", kind, kills, len(c.sessions), bytes)
}

// oneLife begins a gateway, and kills it at a random moment: while it begins,
// or while it is at work.
func (c *campaign) oneLife(t *testing.T, k int, complete bool) {
	t.Helper()
	slow := time.Duration(c.pl.slow())
	burst := printing(fmt.Sprintf("burst-%d", k), uint64(100+k), 2_000_000/c.pl.slow(), 64<<10, 0, small)
	quick := newSession(fmt.Sprintf("quick-%d", k), "exit %d", k)
	quick.code = k
	c.add(burst, quick)
	sc := script{Place: c.pl}
	for _, s := range c.sessions {
		if s.exit != nil && c.rng.IntN(4) > 0 {
			continue // but ended ones are looked at again, now and then
		}
		task := s.task
		task.Attach = s.began && c.rng.IntN(2) == 0
		if s.Seed != 0 {
			task.Follow = c.rng.Int64N(s.bytes)
		}
		if s.Lines != 0 {
			task.Lines = (k + 1) * 1_000_000
		}
		sc.Tasks = append(sc.Tasks, task)
	}
	c.rng.Shuffle(len(sc.Tasks), func(i, j int) { sc.Tasks[i], sc.Tasks[j] = sc.Tasks[j], sc.Tasks[i] })
	l := begin(t, sc)
	if complete || c.rng.IntN(3) > 0 {
		l.await()
		time.Sleep(moments.Between(c.rng, 0, 300*time.Millisecond))
	} else {
		time.Sleep(moments.Between(c.rng, 0, 250*time.Millisecond*slow))
	}
	for _, e := range l.kill() {
		c.byID[e.ID].learn(t, e)
	}
	time.Sleep(moments.Between(c.rng, 0, 50*time.Millisecond))
}

// end opens the place in this process, sees every session to its end and
// returns how much output there was.
func (c *campaign) end(t *testing.T) (bytes int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	x := c.pl.here(t)
	for _, s := range c.sessions {
		task := s.task
		task.Attach = s.began
		p, err := task.begin(x)
		if err != nil {
			t.Errorf("%s: %v", s.Cmd.ID, err)
			continue
		}
		s.learn(t, event{What: "started", ID: s.Cmd.ID, Info: p.Info()})
		if s.Cmd.Stdin {
			if _, err := p.Write(ctx, []byte("\n")); err != nil {
				t.Errorf("%s: Write: %v", s.Cmd.ID, err)
			}
			if err := p.CloseStdin(ctx); err != nil {
				t.Errorf("%s: CloseStdin: %v", s.Cmd.ID, err)
			}
		}
		bytes += s.finish(ctx, t, p)
		ran, err := os.ReadFile(filepath.Join(c.pl.Work, "runs", s.Cmd.ID))
		if string(ran) != "ran\n" || err != nil {
			t.Errorf("%s ran other than once: %q, %v", s.Cmd.ID, ran, err)
		}
	}
	files, err := os.ReadDir(c.pl.logs())
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		id, _, _ := strings.Cut(strings.TrimPrefix(f.Name(), "."), ".")
		if c.byID[id] != nil {
			t.Errorf("%s was removed and %s is left", id, f.Name())
		}
	}
	return bytes
}
